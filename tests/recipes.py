"""Composes recipes of ``configs/`` as fairseq-hydra-train does."""

import functools
import warnings
from unittest.mock import patch

from fairseq.dataclass.initialize import add_defaults, hydra_init
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from diverse_mha.common.files import CONFIGS

_registered = functools.cache(hydra_init)


def composed(name: str, *overrides: str, **options: bool) -> DictConfig:
    """Compose a recipe; ``options`` are those of Hydra's ``compose``."""
    # Register fairseq's config, which Hydra uses as the schema of the recipe with this name.
    _registered(name)
    # Hydra copies its config store, which takes half of the time. The copy is left out, because
    # nothing writes to the store.
    shared = patch.object(ConfigStore, "__deepcopy__", lambda store, _: store, create=True)
    with shared, warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # schemas are matched by name; fairseq's command ignores this warning, too
        with initialize_config_dir(str(CONFIGS), version_base="1.1"):
            return compose(name, overrides=list(overrides), **options)


def recipe(name: str, *overrides: str) -> DictConfig:
    """Compose a recipe, fill in fairseq's defaults, and resolve all values."""
    # Recipes interpolate these keys from values that Hydra sets at run time.
    places = ["task.data=DATA", "common.user_dir=null", "checkpoint.save_dir=RUN"]
    config = composed(name, *places, *overrides)
    add_defaults(config)
    return OmegaConf.create(OmegaConf.to_container(config, resolve=True, enum_to_str=True))
