"""The papers' figures: which modules they show."""

import json

from diverse_mha.training.reproduce.draw import main


def test_coefficients_are_of_the_encoder_decoder_attention_alone(tmp_path):
    layer = {"6": {"svcca": {"coefficients": {"1-2": [0.9, 0.5, 0.1]}}}}
    components = {name: {"layers": layer} for name in ("encoder", "cross", "decoder")}
    curves = []
    for label in ("one", "two"):
        heads = tmp_path / f"{label}.json"
        heads.write_text(json.dumps({"models": [{"name": label, "components": components}]}))
        curves.append({"label": label, "heads": str(heads)})
    spec = {
        "kind": "coefficients", "title": "t", "scale": "small", "curves": curves,
        "panels": [["(a) both", ["one", "two"]]], "notes": ["only this module"],
    }  # fmt: skip
    (tmp_path / "figure.json").write_text(json.dumps(spec))
    assert main([str(tmp_path)]) == 0
    (picture,) = tmp_path.glob("*.svg")
    drawn = picture.read_text()
    assert "<!-- encoder-decoder attention -->" in drawn
    assert "self-attention" not in drawn
    assert "only this module" in (tmp_path / "figure.md").read_text()
