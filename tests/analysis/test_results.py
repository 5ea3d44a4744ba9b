"""Results of an analysis, written to scores.json."""

from diverse_mha.analysis.results import (
    Component,
    Content,
    Disagreement,
    Model,
    Score,
    Sharpness,
    to_json,
)


def test_json_has_only_measured_values():
    layer = {"entropy": Sharpness(0.5, [0.4, 0.6], 0.1, [0.0, 0.2]), "svcca": None}
    model = Model("a", "a.pt", "arch", 9, {"encoder": Component(2, 30, {"1": layer})}, {})
    content = to_json(Content("valid", "bin", {"date": "now"}, [model]))
    assert list(content) == ["subset", "data", "made", "models"]
    (found,) = content["models"]
    keys = ["name", "checkpoint", "architecture", "sentences", "components", "summary", "sha256"]
    assert list(found) == keys
    assert found["components"]["encoder"] == {
        "heads": 2,
        "positions": 30,
        "layers": {
            "1": {
                "entropy": {
                    "mean": 0.5,
                    "heads": [0.4, 0.6],
                    "share_above_0.95": 0.1,
                    "heads_share_above_0.95": [0.0, 0.2],
                },
                "svcca": None,
            }
        },
    }
    model.disagreement = {"encoder": {"output": Disagreement([0.5], 0.5, Score([None], None))}}
    score = to_json(model)["disagreement"]["encoder"]["output"]
    assert score == {
        "layers": [0.5],
        "all": 0.5,
        "off_diagonal": {"layers": [None], "all": None},
    }
