"""Architectures with a suffix of fairseq's have all of fairseq's options and defaults for it."""

from argparse import Namespace
from dataclasses import fields

import pytest
from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer_lm import TransformerLanguageModelConfig
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from diverse_mha.models.config import (
    FAMILIES,
    LANGUAGE_MODEL_FAMILIES,
    FlatTransformerConfig,
    SeamConfig,
)

PREFIXES = {"transformer_lm": LANGUAGE_MODEL_FAMILIES, "transformer": FAMILIES}


def pairs() -> list[tuple[str, str]]:
    """Return pairs of our architectures and fairseq's whose names differ only by a family."""
    stock_names = {}
    for prefix, families in PREFIXES.items():
        for family in families:
            for name in ARCH_MODEL_REGISTRY:
                stock = name.replace(f"{prefix}_{family}", prefix, 1)
                if stock != name and stock in ARCH_MODEL_REGISTRY:
                    stock_names.setdefault(name, stock)
    return sorted(stock_names.items())


def test_every_shape_of_fairseq_has_a_namesake_in_every_family():
    registered = {
        (name, family)
        for name, model in ARCH_MODEL_REGISTRY.items()
        for prefix, families in PREFIXES.items()
        for family in families
        if model is MODEL_REGISTRY[prefix]
    }
    assert len(registered) > 3 * 25 and len(pairs()) == len(registered)
    assert ("transformer_coda_wmt_en_de_big", "transformer_wmt_en_de_big") in pairs()
    assert ("transformer_lm_routing_wiki103", "transformer_lm_wiki103") in pairs()


def stock_config(name: str) -> type:
    return TransformerLanguageModelConfig if "_lm" in name else FlatTransformerConfig


def parse(arch: str, *arguments: str) -> Namespace:
    task = "language_modeling" if "_lm" in arch else "translation"
    command = ["data", "--task", task, "--arch", arch, *arguments]
    return options.parse_args_and_arch(options.get_training_parser(task), command)


def chosen(arch: str, *arguments: str) -> dict:
    """Return the options of a model as fairseq-train sees them: parsed values and defaults."""
    filled = {}
    if arch in MODEL_DATACLASS_REGISTRY:
        for f in fields(MODEL_DATACLASS_REGISTRY[arch]):
            if f.name != "_name" and not str(f.default).startswith("${"):
                filled[f.name] = f.default
    return {k: v for k, v in {**filled, **vars(parse(arch, *arguments))}.items() if k != "arch"}


def other_values(config: type) -> list[str]:
    """Return every flag, and every numeric option with a value other than its default."""
    arguments = []
    for f in fields(config):
        option = "--" + f.name.replace("_", "-")
        if isinstance(f.default, bool):
            arguments.append(option)
        elif isinstance(f.default, int | float):
            arguments += [option, str(f.default + 1)]
    assert len(arguments) > 50
    return arguments


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("ours, stock", pairs())
def test_options_and_defaults_equal_those_of_the_namesake(ours, stock, everything):
    arguments = other_values(stock_config(stock)) if everything else []
    own, theirs = chosen(ours, *arguments), chosen(stock, *arguments)
    differing = {k: (own.get(k), v) for k, v in theirs.items() if k not in own or own[k] != v}
    assert differing == {}
    # Further options are ours, with the family's value, or have fairseq's default.
    prefix = next(p for p in PREFIXES if stock.startswith(p))
    family = next(f for f in FAMILIES if ours.startswith(f"{prefix}_{f}"))
    expected = {f.name: f.default for f in fields(stock_config(stock))}
    expected |= {f.name: f.default for f in fields(SeamConfig)} | PREFIXES[prefix][family]
    extra = {k: v for k, v in own.items() if k not in theirs and v != expected.get(k, ())}
    # The stock parser passes some options only to the task. Ours have the value in ``arguments``.
    assert {k: v for k, v in extra.items() if f"--{k.replace('_', '-')}" not in arguments} == {}


def test_hydras_node_of_a_shape_is_built_on_first_use():
    """Fairseq builds the nodes of all shapes at every start, which takes 0.01 s each."""
    store = ConfigStore.instance()
    ours = [name for name, cls in MODEL_REGISTRY.items() if "diverse_mha" in cls.__module__]
    assert len(ours) > 50
    assert not any("node" in vars(store.repo["model"][f"{name}.yaml"]) for name in ours)
    name = "transformer_coda_iwslt_de_en"
    node = store.load(f"model/{name}.yaml").node
    assert node == OmegaConf.structured(MODEL_DATACLASS_REGISTRY[name](_name=name))
