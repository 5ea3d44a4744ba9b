"""fairseq's configuration of recipes, for tests."""

from omegaconf import DictConfig

from diverse_mha.recipes.configuration import configure
from diverse_mha.recipes.recipe import read_recipe


def recipe(name: str, *overrides: str) -> DictConfig:
    """Return the configuration of a recipe, as a training gets it."""
    return configure(read_recipe(name, ["checkpoint.save_dir=RUN", *overrides]))
