"""Every file in configs/ builds its task, model and criterion, as fairseq-hydra-train does."""

import copy
import functools
from pathlib import Path

import pytest
import torch
from fairseq import tasks
from fairseq.dataclass.initialize import add_defaults
from omegaconf import OmegaConf

import diverse_mha  # noqa: F401  registers models, criterions and tasks
from diverse_mha.common.places import CONFIGS
from diverse_mha.training.compose import compose as our_compose
from tests.recipes import composed

RECIPES = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
METHODS = sorted(path.stem for path in (CONFIGS / "method").glob("*.yaml"))
SIZES = sorted(path.stem for path in (CONFIGS / "size").glob("*.yaml"))
TRAININGS = sorted(path.stem for path in (CONFIGS / "training").glob("*.yaml"))


def hydra(recipe: str, *overrides: str):
    """Compose a recipe as ``fairseq_cli.hydra_train`` does; a copy, to be changed at will."""
    return copy.deepcopy(completed(recipe, *overrides))


@functools.cache
def completed(recipe: str, *overrides: str):
    """Compose once; with Hydra's own settings."""
    config = composed(recipe, *overrides, return_hydra_config=True)
    add_defaults(config)
    return config


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[bool, Path]:
    """Dictionaries of every kind of task: short ones, and those that adaptive softmax wants."""
    return {
        adaptive: dictionaries(tmp_path_factory.mktemp("dictionaries"), 61000 if adaptive else 100)
        for adaptive in (False, True)
    }


def dictionaries(folder: Path, size: int) -> Path:
    words = "".join(f"w{number} 1\n" for number in range(size))
    classes = "".join(f"c{number} 1\n" for number in range(7))
    for name in (
        "dict.txt",
        *(f"dict.{lang}.txt" for lang in ("de", "en", "zh", "ru", "lm", "qo")),
    ):
        (folder / name).write_text(words)
    for name in ("input0", "input1", "label", "length"):
        (folder / name).mkdir()
        (folder / name / "dict.txt").write_text(words if "input" in name else classes)
    return folder


def build(config, data):
    """Build task, model (without weights) and criterion."""
    config.task.data = str(data["adaptive" in config.criterion._name])
    task = tasks.setup_task(config.task)
    with torch.device("meta"):
        model = task.build_model(config.model)
    return task, model, task.build_criterion(config.criterion)


SOME = ("multi30k_small", "logic", "wiki103_small")


def sample(names, of_units):
    """A sample is built by the unit tests, the others by the integration tests, which train too."""
    assert set(of_units) <= set(names)
    return [
        pytest.param(name, marks=() if name in of_units else pytest.mark.integration)
        for name in names
    ]


def test_all_files_are_covered():
    logging = CONFIGS / "hydra" / "job_logging" / "terminal_and_run.yaml"
    files = set(CONFIGS.rglob("*.yaml")) - {logging}
    covered = len(RECIPES) + len(METHODS) + len(SIZES) + len(TRAININGS)
    assert len(files) == covered
    assert len(RECIPES) == 18 and len(METHODS) == 24 and len(SIZES) == 3 and len(TRAININGS) == 2
    used = {str(path.read_text()).partition("training: ")[2].split("\n")[0] for path in files}
    assert set(TRAININGS) <= used


@pytest.mark.parametrize("recipe", sample(RECIPES, SOME))
def test_a_recipe_builds(recipe, data):
    config = hydra(recipe)
    _, model, criterion = build(config, data)
    assert sum(p.numel() for p in model.parameters()) > 1e4
    assert config.criterion._name.endswith("_with_diversity") and criterion is not None


@pytest.mark.parametrize(
    "method", sample(METHODS, ("baseline", "drophead_orthogonality_hsic", "em_routing_1_2"))
)
def test_a_method_builds_and_does_something(method, data):
    config = hydra("multi30k_small", f"method={method}")
    plain = hydra("multi30k_small")
    _, model, _ = build(config, data)
    assert model is not None
    changed = (config.model, config.criterion) != (plain.model, plain.criterion)
    assert changed == (method != "baseline")


@pytest.mark.parametrize("size", SIZES)
def test_a_size_builds(size, data):
    config = hydra("wmt14_en_de", f"size={size}")
    _, model, _ = build(config, data)
    heads = model.encoder.layers[0].self_attn.num_heads
    assert (model.encoder.layers[0].embed_dim, heads) == {
        "base": (512, 8), "big": (1024, 16), "big_8_heads": (1024, 8),
    }[size]  # fmt: skip
    assert config.optimization.max_update == (100000 if size == "base" else 300000)


def test_the_baseline_is_plain_whatever_the_family(data):
    plain = build(hydra("multi30k_small"), data)[1]
    for family in ("transformer_coda", "transformer_routing"):
        config = hydra("multi30k_small", "method=baseline", f"model._name={family}")
        assert config.model.logits == "none" and config.model.aggregation == "linear"
        _, model, _ = build(config, data)
        assert model.state_dict().keys() == plain.state_dict().keys()


def test_documented_settings_still_win():
    config = hydra("multi30k_small", "criterion.disagreement=output")
    assert config.criterion.disagreement == "output"
    config = hydra("multi30k", "model._name=transformer_routing")
    assert config.model.aggregation == "em-routing"
    config = hydra("multi30k", "method=disagreement_em_routing", "model.encoder_layers=1")
    assert (config.criterion.disagreement, config.model.encoder_layers) == ("output", 1)


@pytest.mark.parametrize(
    ("recipe", "choices"),
    [
        ("wmt14_en_de", {"size": "big"}),
        ("multi30k_small", {"method": "drophead_orthogonality_hsic"}),
        ("wiki103", {"method": "realformer"}),
        ("logic", {"method": "baseline"}),
    ],
)
def test_our_composition_is_hydras(recipe, choices):
    theirs = OmegaConf.to_container(hydra(recipe, *(f"{g}={c}" for g, c in choices.items())))
    ours = our_compose(recipe, choices, {})
    for group, values in ours.items():
        for key, value in values.items():
            found = theirs[group][key]
            if isinstance(value, float) and isinstance(found, str):
                found = float(found)  # a weight may also be text, one for each component
            assert getattr(found, "value", found) == value, (group, key)
