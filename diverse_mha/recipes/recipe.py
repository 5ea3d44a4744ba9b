"""Recipes: a corpus with the settings of a paper, a method, and overrides such as ``key=value``.

``diverse-mha run``, ``train``, ``recipe`` and ``reproduce`` read their recipe here, once, before
fairseq is imported. A recipe is a YAML file with fairseq's groups. Its ``defaults`` name files of
``configs/`` that are merged over it, such as ``method: baseline``; overrides come last.
"""

import argparse
import difflib
import functools
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf._utils import get_yaml_loader
from omegaconf.errors import OmegaConfBaseException

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import CONFIGS, USER_DIR

METHOD = "method"  # the group that every recipe has
BASELINE = "baseline"  # its file without a method
_DEFAULTS = "defaults"
_AND = "+"  # joins methods
_PLAIN = re.compile(r"[\w./:@%,()-]+", re.ASCII)


@dataclass(frozen=True)
class Recipe:
    """A composed recipe.

    Attributes:
        path: its file.
        choices: group of ``configs/`` -> name of the file that was merged, such as
            ``{"method": "coda+hsic"}``.
        given: overrides of the command line, by dotted key.
        settings: group -> key -> value; interpolations such as ``${optimization.max_update}`` stay
            as written.
    """

    path: Path
    choices: Mapping[str, str]
    given: Mapping[str, object]
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.path.stem

    @property
    def title(self) -> str:
        """Name and choices, as a user would type them."""
        return " ".join([self.name, *(f"{group}={name}" for group, name in self.choices.items())])

    @property
    def plugin(self) -> str | None:
        """The user's own plugin (``common.user_dir``); None if it is this package, or none.

        A folder that is not here and has this package's name is this package: a recipe may have
        been composed elsewhere.
        """
        named = self.get("common.user_dir")
        if named is None:
            return None
        folder = Path(str(named))
        same = folder.samefile(USER_DIR) if folder.exists() else folder.name == USER_DIR.name
        return None if same else str(named)

    @functools.cached_property
    def resolved(self) -> dict[str, Any]:
        """The settings with their interpolations resolved."""
        try:
            return _plain(OmegaConf.create(self.settings), resolve=True)
        except OmegaConfBaseException as error:
            raise UserError(f"{self.path}: {_first_line(error)}") from None

    def get(self, key: str, default: object = None) -> Any:
        """Return the value of a dotted key; ``default`` if it is absent or null."""
        value = lookup(self.resolved, key)
        return default if value is None else value

    def differences(self, other: "Recipe") -> dict[str, tuple[object, object]]:
        """Return dotted key -> (value here, value there) of the resolved settings that differ."""
        one, two = (flatten(recipe.resolved) for recipe in (self, other))
        keys = sorted(one.keys() | two.keys())
        return {key: (one.get(key), two.get(key)) for key in keys if one.get(key) != two.get(key)}

    def changed(self, settings: Mapping[str, object]) -> "Recipe":
        """Return the recipe with further settings, by dotted key."""
        return replace(self, settings=_override(self.path, self.settings, settings))

    def to_yaml(self) -> str:
        """Return the composed recipe as a file of its own, without groups and interpolations.

        A corpus that the user named is his own, so that the file names no preparation.
        """
        settings = dict(self.resolved)
        if "task.data" in self.given and isinstance(scoring := settings.get("scoring"), dict):
            settings["scoring"] = {k: v for k, v in scoring.items() if k != "prepare"}
        written = OmegaConf.to_yaml(OmegaConf.create(settings))
        return f"# {self.title}, composed by diverse-mha\n{written}"


def find(config: str | Path) -> Path:
    """Return the file of a recipe; ``config`` is its path, or its name in ``configs/``."""
    ours = CONFIGS / f"{config}.yaml"
    return ours if Path(config).name == str(config) and ours.is_file() else Path(config)


def read_recipe(
    config: str | Path, words: Sequence[str] = (), *, with_folder: bool = True
) -> Recipe:
    """Compose a recipe and the overrides ``words``, which are ``key=value``.

    A run that names no folder gets ``runs/RECIPE/METHOD[-SIZE][-seedN]``, unless ``with_folder`` is
    False.
    """
    path = find(config)
    if not path.is_file() and not path.suffix:
        names = sorted(file.stem for file in CONFIGS.glob("*.yaml"))
        close = difflib.get_close_matches(str(config), names, 3) or names
        raise UserError(f"{config}: no such recipe; configs/ has {', '.join(close)}")
    listed = groups_of(path)
    choices, given = parse_overrides(words, {METHOD, *listed, *folders_beside(path)})
    # A file without a list of groups is taken as it is, unless a method is named.
    wanted = {**listed, **{group: name for group, name in choices.items() if name is not None}}
    wanted = {group: str(name) for group, name in wanted.items() if name is not None}
    plain = compose(path, wanted, {})
    recipe = Recipe(path, wanted, given, _override(path, plain, given))
    if with_folder and lookup(recipe.settings, "checkpoint.save_dir") is None:
        folder = _folder(recipe, listed, lookup(plain, "common.seed"))
        recipe = recipe.changed({"checkpoint.save_dir": folder})
    return recipe


def _folder(recipe: Recipe, listed: Mapping[str, str | None], own: object) -> str:
    """Return the run's folder, which tells apart what ``configs/`` and the seed make different.

    ``listed`` holds the recipe's own choices, and ``own`` is its own seed.
    """
    seed = recipe.given.get("common.seed", own)
    others = (
        name
        for group, name in recipe.choices.items()
        if group != METHOD and name != listed.get(group)
    )
    parts = [recipe.choices.get(METHOD, "default"), *others]
    parts += [f"seed{seed}"] if seed != own else []
    return f"runs/{recipe.name}/{'-'.join(parts)}"


def groups_of(config: str | Path) -> dict[str, str | None]:
    """Return the groups in a recipe's ``defaults``, each with its choice or None."""
    groups: dict[str, str | None] = {}
    for entry in read(find(config)).get(_DEFAULTS) or []:
        if not isinstance(entry, str):
            groups |= {g: c for g, c in entry.items() if not g.startswith("override ")}
    return groups


def compose(
    config: str | Path, choices: Mapping[str, str | None], settings: Mapping[str, object]
) -> dict[str, Any]:
    """Return a recipe's settings with its interpolations as written.

    The groups that the recipe lists are merged in their order, a method last. A method replaces
    the method that the file itself sets, if any: ``method=hsic`` trains HSIC alone.

    Args:
        config: path or name of the recipe.
        choices: group -> name of a file; groups that are not named keep the recipe's choice.
        settings: overrides by dotted key.
    """
    path = find(config)
    listed = groups_of(path)
    for group in choices.keys() - listed.keys() - {METHOD}:
        raise UserError(_no_group(path, group, choices[group]))
    wanted = {g: c for g, c in {**listed, **choices}.items() if c}
    method = wanted.pop(METHOD, None)
    merged = _merged(read(path), *(_file(path, g, c) for g, c in wanted.items()))
    if method is not None:
        parts = [_file(path, METHOD, name) for name in method.split(_AND)]
        _check_compatible(method, parts)
        merged = _merged(_without_method(path, merged), *parts)
    merged.pop(_DEFAULTS, None)
    return _override(path, _plain(merged), settings)


def _merged(*parts: DictConfig) -> DictConfig:
    return cast("DictConfig", OmegaConf.merge(*parts))  # a list only of lists


def _plain(settings: DictConfig, *, resolve: bool = False) -> dict[Any, Any]:
    return cast("dict[Any, Any]", OmegaConf.to_container(settings, resolve=resolve))


def _override(
    path: Path, settings: dict[str, Any], changes: Mapping[str, object]
) -> dict[str, Any]:
    merged = OmegaConf.create(settings)
    try:
        for name, value in changes.items():
            OmegaConf.update(merged, name, value, force_add=True)
        return _plain(merged)
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(f"{path}: {_first_line(error)}") from None


def _without_method(path: Path, settings: DictConfig) -> DictConfig:
    """Return the settings without what a method could have set in the file."""
    off = _file(path, METHOD, BASELINE)
    kept = _plain(settings)
    for name in names_in(path, METHOD):
        for group, values in _file(path, METHOD, name).items():
            for key in values if isinstance(kept.get(group), dict) else ():
                neutral = (off.get(group) or {}).get(key)
                if key in kept[group] and kept[group][key] != neutral:
                    del kept[group][key]
                    kept[group] |= {} if neutral is None else {key: neutral}
    return OmegaConf.create(kept)


def _check_compatible(method: str, parts: Sequence[DictConfig]) -> None:
    """Raise an error if two methods set one key to different values."""
    seen: dict[tuple[object, object], object] = {}
    for part in parts:
        for group, values in part.items():
            for key, value in values.items():
                if seen.setdefault((group, key), value) != value:
                    raise UserError(
                        f"method={method}: two of its methods set {group}.{key}; name one of them"
                    )


def _file(path: Path, group: str, name: str) -> DictConfig:
    """Read the file of a group: beside the recipe, or in ``configs/``."""
    near, ours = (folder / group / f"{name}.yaml" for folder in (path.parent, CONFIGS))
    if not near.is_file() and not ours.is_file():
        known = names_in(path, group)
        names = difflib.get_close_matches(name, known, 3) or known
        raise UserError(f"{group}={name}: no such file; choose from {', '.join(names)}")
    return read(near if near.is_file() else ours)


def names_in(config: str | Path, group: str) -> list[str]:
    """Return the names of a group's files, beside the recipe and in ``configs/``."""
    folders = (find(config).parent / group, CONFIGS / group)
    return sorted({file.stem for folder in folders for file in folder.glob("*.yaml")})


def folders_beside(path: Path) -> set[str]:
    """Return the groups that are folders, beside the recipe or in ``configs/``."""
    return {file.parent.name for place in (path.parent, CONFIGS) for file in place.glob("*/*.yaml")}


def _no_group(path: Path, group: str, name: object) -> str:
    having = [file.stem for file in sorted(CONFIGS.glob("*.yaml")) if group in groups_of(file)]
    cure = f"recipes with it: {', '.join(having)}" if having else f"give {METHOD}=NAME"
    return f"{group}={name}: the recipe {path.stem} has no group {group}; {cure}"


def parse_overrides(
    words: Sequence[str], groups: set[str] | frozenset[str] = frozenset({METHOD})
) -> tuple[dict[str, str | None], dict[str, object]]:
    """Parse ``key=value`` words; return choices of ``groups``, and settings by dotted key.

    A value is YAML: ``[0.1,0.2]`` is a list, ``null`` is None. What is no YAML is text. A key
    without a dot that is no group names a part of fairseq: ``optimizer=adam`` sets
    ``optimizer._name``. A leading ``+`` is ignored.
    """
    choices: dict[str, str | None] = {}
    settings: dict[str, object] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            cure = f"{word} VALUE is written {word}=VALUE" if "." in word else "write key=value"
            raise UserError(f"{word}: settings of a recipe are key=value; {cure}")
        key, value = key.lstrip("+"), _value(text)
        if not re.fullmatch(r"\w+(\.\w+)*", key):
            raise UserError(f"{word}: {key!r} is no key; write GROUP.KEY=VALUE or method=NAME")
        if key in groups:
            choices[key] = None if value is None else text
        else:
            settings[key if "." in key else f"{key}._name"] = value
    return choices, settings


def _value(text: str) -> object:
    try:
        value = yaml.load(text, Loader=get_yaml_loader())
    except yaml.YAMLError:
        return text
    return text if isinstance(value, dict) and not text.startswith("{") else value


def spell(value: object) -> str:
    """Return a value so that :func:`parse_overrides` reads it."""
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and _value(value) == value
        return value if plain else _quoted(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_spell_in_list, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def _spell_in_list(value: object) -> str:
    """Return an item of a list, where a comma would part a text in two."""
    return _quoted(value) if isinstance(value, str) and "," in value else spell(value)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def lookup(settings: object, name: str) -> object:
    """Return the value under a dotted key, or None."""
    for part in name.split("."):
        settings = settings.get(part) if isinstance(settings, Mapping) else None
    return settings


def flatten(settings: Mapping) -> dict[str, object]:
    """Return nested settings by dotted key."""
    flat: dict[str, object] = {}
    for group, value in settings.items():
        inner = flatten(value) if isinstance(value, Mapping) else None
        flat |= {group: value} if inner is None else {f"{group}.{k}": v for k, v in inner.items()}
    return flat


@functools.lru_cache
def read(path: Path) -> DictConfig:
    """Read one YAML file of settings."""
    if not path.is_file():
        names = sorted(file.stem for file in path.parent.glob("*.yaml"))
        names = difflib.get_close_matches(path.stem, names, 3) or names
        has = f"{path.parent.name}/ has {', '.join(names)}" if names else "check the name"
        raise UserError(f"{path}: no such file; {has}")
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


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha recipe``."""
    parser.epilog = (
        "The printed file is a recipe of your own: run and train take it, and so does "
        "fairseq-hydra-train.\n\nexample:\n"
        "  diverse-mha recipe multi30k_small method=coda+hsic >mine.yaml\n"
        "  diverse-mha run mine.yaml model.dropout=0.2"
    )
    parser.add_argument("recipe", metavar="RECIPE", help="a file, or a name in configs/")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="overrides")


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha recipe``: print the composed recipe."""
    recipe = read_recipe(args.recipe, args.settings, with_folder=False)
    sys.stdout.write(recipe.to_yaml())
    return 0
