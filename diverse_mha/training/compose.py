"""Reads recipes: a file of ``configs/``, its groups, and overrides such as ``method=coda``.

In its ``defaults`` list, a recipe has ``_self_`` first and its config groups after it. So a group
overrides the recipe, a later group overrides an earlier one, and a setting on the command line
overrides all. ``fairseq-hydra-train`` needs ``_self_`` first: fairseq merges its schema at that
position, and the schema overrides all entries above it.
"""

import difflib
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import CONFIGS

Choices = Mapping[str, str | None]  # group of ``configs/``, such as ``method`` -> file name


def find(config: str | Path) -> Path:
    """Return the file of a recipe; ``config`` is its path, or its name in ``configs/``."""
    ours = CONFIGS / f"{config}.yaml"
    return ours if Path(config).name == str(config) and ours.is_file() else Path(config)


def groups_of(config: str | Path) -> dict[str, str | None]:
    """Return the groups in a recipe's defaults list, each with its choice or None."""
    groups: dict[str, str | None] = {}
    for entry in read(find(config)).get("defaults", []):
        if not isinstance(entry, str):
            groups |= {g: c for g, c in entry.items() if not g.startswith("override ")}
    return groups


def compose(
    config: str | Path,
    choices: Choices,
    settings: Mapping[str, object],
    *,
    lenient: bool = False,
) -> dict:
    """Return a recipe's settings; interpolations are not resolved.

    Groups that the recipe does not list come last. The keys of ``settings`` are dotted, such as
    ``model.encoder_layers``. With ``lenient``, choices without a file are left to Hydra.
    """
    path = find(config)
    layers = [read(path)]
    for group, choice in {**groups_of(path), **choices}.items():
        if choice:
            near, ours = (folder / group / f"{choice}.yaml" for folder in (path.parent, CONFIGS))
            file = near if near.is_file() else ours
            if file.is_file() or not lenient:
                layers.append(read(file))
    try:
        merged = OmegaConf.merge(*layers)
        for name, value in settings.items():
            OmegaConf.update(merged, name, value, force_add=True)
        plain = OmegaConf.to_container(merged)
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path}: {reason}; correct it in the recipe or the command") from None
    return {key: value for key, value in plain.items() if key not in ("defaults", "hydra")}


def check_choices(config: str | Path, choices: Choices) -> None:
    """Raise an error for a choice without a file, if its group is a folder of such files."""
    for group, choice in choices.items():
        folders = [folder / group for folder in (find(config).parent, CONFIGS)]
        folders = [folder for folder in folders if folder.is_dir()]
        names = sorted({file.stem for folder in folders for file in folder.glob("*.yaml")})
        if choice and folders and str(choice) not in names:
            names = difflib.get_close_matches(str(choice), names, 3) or names
            raise UserError(f"{group}={choice}: no such file; choose from {', '.join(names)}")


def parse_overrides(words: Sequence[str]) -> tuple[dict[str, str], dict[str, object]]:
    """Parse overrides in Hydra's grammar; return choices of groups, and settings by dotted key."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    choices: dict[str, str] = {}
    settings: dict[str, object] = {}
    for word in words:
        try:
            override = parser.parse_override(word)
            value = override.value()
        except HydraException:
            raise UserError(
                f"{word}: Hydra cannot read the value; put the value in quotes, \"KEY='VALUE'\", "
                "with \\' for an apostrophe, or correct the value"
            ) from None
        key = override.key_or_group
        of_hydra = key.replace("/", ".").partition(".")[0] == "hydra"
        if of_hydra or override.is_sweep_override() or override.is_delete():
            continue
        # A key without a dot chooses a group's file, or a model or a task by name.
        (choices if "." not in key else settings)[key] = value
    return choices, settings


def lookup(settings: object, name: str) -> object:
    """Return the value under a dotted key, or None."""
    for part in name.split("."):
        settings = settings.get(part) if isinstance(settings, Mapping) else None
    return settings


@functools.lru_cache
def read(path: Path) -> DictConfig:
    """Read one YAML file of settings."""
    import yaml

    if not path.is_file():
        names = sorted(file.stem for file in path.parent.glob("*.yaml"))
        names = difflib.get_close_matches(path.stem, names, 3) or names
        raise UserError(f"{path}: no such file; {path.parent.name}/ has {', '.join(names)}")
    try:
        settings = OmegaConf.load(path)
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}; correct it") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        raise UserError(f"{path}: not readable as YAML{line}; correct it") from None
    except (OmegaConfBaseException, OSError):
        settings = None  # the file contains a single value
    # OmegaConf reads a line of words as a key without a value.
    if not isinstance(settings, DictConfig) or [*settings.values()] == [None]:
        raise UserError(f"{path}: contains no settings; see the recipes in configs/")
    return settings
