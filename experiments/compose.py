"""Recipes of ``configs/`` put together as Hydra does, without importing fairseq.

A recipe lists itself first and its groups after it, so a group wins over the recipe, a later
group over an earlier one, and a setting given by name over all. The other way round does not
work under ``fairseq-hydra-train``: fairseq's schema of a recipe comes in at the recipe's place
and covers whatever is listed before it, which is why no recipe builds on another one.
"""

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from omegaconf import OmegaConf

from diverse_mha.common.errors import UserError
from diverse_mha.common.places import CONFIGS

#: Where a run is and what it prints: no part of what it computes.
_PLACES = (
    ("checkpoint", "save_dir"),
    ("common", "user_dir"),
    ("common", "log_format"),
    ("common", "log_interval"),
    ("task", "data"),
)


def groups_of(config: str) -> dict[str, str | None]:
    """Return the groups that a recipe names, each with its choice or None.

    Raises:
        UserError: if there is no such recipe.
    """
    found = {}
    for entry in _load(CONFIGS / f"{config}.yaml").get("defaults", []):
        if not isinstance(entry, str):
            found |= {g: c for g, c in entry.items() if not g.startswith("override ")}
    return found


def compose(config: str, choices: Mapping[str, str], settings: Mapping[str, object]) -> dict:
    """Put a recipe of ``configs/`` together, its interpolations as they are written.

    A group that it does not name comes last; settings are by their dotted name, such as
    ``model.encoder_layers``.

    Raises:
        UserError: for a recipe or a choice that does not exist.
    """
    groups = groups_of(config) | dict(choices)
    layers = [_load(CONFIGS / f"{config}.yaml")]
    layers += [_load(CONFIGS / g / f"{name}.yaml") for g, name in groups.items() if name]
    merged = OmegaConf.merge(*layers)
    for name, value in settings.items():
        OmegaConf.update(merged, name, value, force_add=True)
    plain = OmegaConf.to_container(merged)
    for key in ("defaults", "hydra"):
        plain.pop(key, None)
    return plain


def lookup(settings: Mapping, name: str) -> object:
    """Return the value under a dotted name, or None."""
    for part in name.split("."):
        settings = settings.get(part) if isinstance(settings, Mapping) else None
    return settings


def fingerprint(settings: Mapping, *more: object) -> str:
    """Hash what decides a result: the settings without places, and whatever else is given."""
    kept = {group: dict(values) for group, values in settings.items()}
    for group, key in _PLACES:
        kept.get(group, {}).pop(key, None)
    text = json.dumps([kept, *more], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@functools.lru_cache
def _load(path: Path):
    if not path.is_file():
        folder = path.parent
        names = ", ".join(sorted(file.stem for file in folder.glob("*.yaml")))
        raise UserError(f"{path}: no such file; {folder.name}/ has {names}")
    return OmegaConf.load(path)
