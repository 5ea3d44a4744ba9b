"""Checks a recipe's names, groups and keys, and says which are near a wrong one."""

import dataclasses
import difflib
import os
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from omegaconf import BooleanNode, FloatNode, IntegerNode, ValidationError

import diverse_mha
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import CONFIGS, USER_DIR
from diverse_mha.common.plugins import import_plugin
from diverse_mha.evaluation import pipeline
from diverse_mha.training import compose
from diverse_mha.training.request import Request

LISTED = "configs/ and docs/options.md list the keys"
FEW = 30  # names that a message lists
_READERS = {bool: BooleanNode, int: IntegerNode, float: FloatNode}
_NAMES = {bool: "true or false", int: "a whole number", float: "a number"}
_EXAMPLES = {bool: "true", int: "4", float: "0.1"}


def check(job: Request) -> None:
    """Raise an error for what a training would refuse: names, groups and keys that do not exist.

    Wrong settings of the evaluation are refused, too, though training does not read them. The
    user's plugin is imported first, because it adds names and keys.
    """
    diverse_mha.register()
    plugin = str(job.setting("common", "user_dir") or "")
    plugin = plugin.replace("${hydra:runtime.cwd}", os.getcwd())
    if plugin and "${" not in plugin and Path(plugin).name != USER_DIR.name:
        import_plugin(plugin)
    if unknown := unknown_name(job):
        raise UserError(f"{job.config}: {unknown}")
    check_settings(job)
    check_task(job)
    check_values(job)
    pipeline.check_scoring(job.recipe, job.config)  # else a misspelling shows after the training
    check_model(job)


def check_settings(job: Request) -> None:
    """Raise an error for ``GROUP=NAME`` and ``GROUP.KEY=VALUE`` if no such group or key exists.

    Hydra accepts ``+GROUP=NAME`` and ``++GROUP.KEY=VALUE``, but nothing reads them. It refuses the
    others, but only when it trains.
    """
    if any(str(CONFIGS) not in word for word in _search_paths(job)):
        return  # the user's own search path may define other groups
    names, kinds, folders, groups = names_of_groups(), schemas(job), _folders(job), groups_in(job)
    for word in job.arguments:
        group, _, key = name_in(word).partition(".")
        value = word.partition("=")[2]
        if group.split("/")[0] not in groups:
            cure = similar(group, groups) or choose_from(groups)
            raise UserError(f"{word}: there is no group {group}; {cure}")
        if not key and group in names.keys() - folders and value not in ("null", *names[group]):
            raise UserError(f"{word}: there is no {value!r}; {_nearest(value, names[group])}")
        lacking = folders - names.keys() - compose.groups_of(job.config).keys()
        if not key and group in lacking and not word.startswith("+"):
            raise UserError(f"{word}: {job.config.stem} has no group {group}; +{word} adds it")
        known = keys_of(kinds.get(group))
        if key and "." not in key and known and key not in known:
            raise UserError(f"{word}: {group} has no {key}; {cure_for(job, group, key)}")


def check_values(job: Request) -> None:
    """Raise an error for a number, flag or list of numbers that a training would not read.

    Hydra and fairseq refuse them as well, but only after the corpus is prepared. Interpolations are
    left to them.
    """
    for group, kind in schemas(job).items():
        values = job.recipe.get(group)
        for option in dataclasses.fields(kind) if isinstance(values, dict) else ():
            value = values.get(option.name)
            if value is None or "???" == value or "${" in str(value):
                continue
            if cure := _cure_of_value(option.type, value):
                name = f"{group}.{option.name}"
                given = [word for word in job.arguments if name_in(word) == name]
                in_file = f"{job.config}: {name}={str(value).replace(', ', ',')}"
                raise UserError(f"{given[-1] if given else in_file}: {cure}")


def check_task(job: Request) -> None:
    """Raise an error if the model does not fit the task, such as translation for text alone.

    Recipes in ``configs/size/`` hold the model of a translation.
    """
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    from diverse_mha.fairseq_fixes.command_line import task_for

    name, task = (str(job.setting(group, "_name")) for group in ("model", "task"))
    has_blocks = "tokens_per_sample" in keys_of(TASK_DATACLASS_REGISTRY.get(task))
    if wanted := task_for(name, task, has_blocks=has_blocks):
        sets_model = [word for word in job.arguments if f"  _name: {name}\n" in _text(job, word)]
        cure = f"leave {sets_model[-1]} out" if sets_model else f"give task._name={wanted}"
        raise UserError(f"model._name={name}: does not go with task._name={task}; {cure}")


def _text(job: Request, word: str) -> str:
    """Return the text of the file that ``GROUP=NAME`` adds to a recipe; empty if there is none."""
    file = f"{name_in(word)}/{word.partition('=')[2]}.yaml"
    found = [place / file for place in (job.config.parent, CONFIGS) if (place / file).is_file()]
    return found[0].read_text(encoding="utf-8") if found else ""


def _cure_of_value(annotation: object, value: object) -> str:
    """Return the cure for a value that does not fit a field's type; empty if it fits."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    kinds = {*(typing.get_args(annotation) if union else [annotation])} - {types.NoneType}
    kind = kinds.pop() if len(kinds) == 1 else None
    if typing.get_origin(kind) is list:
        (item,) = typing.get_args(kind)
        if item not in _READERS or isinstance(value, list) and _fits(item, value):
            return ""
        items = value if isinstance(value, list) else str(value).strip("[]() ").split(",")
        listed = ",".join(str(one).strip() for one in items)
        return f"must be a list; give [{listed if _fits(item, items) else _EXAMPLES[item]}]"
    if kind not in _READERS or _fits(kind, [value]):
        return ""
    if kind is float and _fits(float, [point := str(value).replace(",", ".")]):
        return f"give {point}"
    return f"must be {_NAMES[kind]}, such as {_EXAMPLES[kind]}"


def _fits(kind: type, values: list) -> bool:
    """Return True if OmegaConf reads all values as ``kind``: bool, int or float."""
    try:
        for value in values:
            _READERS[kind](value)
    except ValidationError:
        return False
    return True


def groups_in(job: Request) -> set[str]:
    """Return the groups of fairseq, of Hydra, of evaluation, and of folders of recipes."""
    return {"hydra", *names_of_groups(), *schemas(job), *pipeline.GROUPS, *_folders(job)}


def _folders(job: Request) -> set[str]:
    """Return the groups that are folders: beside the recipe, and those of ``configs/``."""
    depths = ("*/*.yaml", "*/*/*.yaml")  # method/coda.yaml, or a group in a group
    return {
        file.relative_to(place).parts[0]
        for place in (job.config.parent, CONFIGS)
        for depth in depths
        for file in place.glob(depth)
    }


def _search_paths(job: Request) -> list[str]:
    return [word for word in job.arguments if word.startswith("hydra.searchpath=")]


def check_model(job: Request) -> None:
    """Raise an error if the recipe sets an option of this package for one of fairseq's models."""
    from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY

    from diverse_mha.fairseq_fixes.command_line import having
    from diverse_mha.models.config import seam_options

    name = str(job.setting("model", "_name"))
    known = getattr(MODEL_DATACLASS_REGISTRY.get(name), "__dataclass_fields__", ())
    for option in seam_options() if name in MODEL_REGISTRY else ():
        value = job.setting("model", option.name)
        if option.name not in known and value not in (None, str(option.default)):
            models = " or ".join(having(option.name, "--arch", name))
            raise UserError(
                f"{job.config}: model.{option.name}={value}: {name} has no such option; give "
                f"model._name={models}"
            )


def name_in(word: str) -> str:
    """Return the group or key of an override."""
    return re.split("[@=]", word.lstrip("+~"))[0]


def names_of_groups() -> dict[str, Collection[str]]:
    """Return the registered names of each group: models, tasks, criterions and so on."""
    from fairseq import models, registry, tasks

    names = {"model": models.MODEL_DATACLASS_REGISTRY, "task": tasks.TASK_REGISTRY}
    return names | {name: entry["registry"] for name, entry in registry.REGISTRIES.items()}


def unknown_name(job: Request) -> str | None:
    """Return a message if a recipe names an unregistered model, task or the like; else None."""
    for group, known in names_of_groups().items():
        # This reads both forms: model=NAME on the command line, model._name in the file.
        name = job.setting(group, "_name")
        if name is not None and name not in known:
            return f"{group}._name: there is no {name!r}; {_nearest(name, known)}"
    return None


def schemas(job: Request) -> dict[str, type]:
    """Return group -> dataclass with the config keys of the recipe's model, task and so on."""
    from fairseq import models, registry, tasks
    from fairseq.dataclass.configs import FairseqConfig

    known = {"model": models.MODEL_DATACLASS_REGISTRY, "task": tasks.TASK_DATACLASS_REGISTRY}
    known |= {name: entry["dataclass_registry"] for name, entry in registry.REGISTRIES.items()}
    kinds = {f.name: f.type for f in dataclasses.fields(FairseqConfig)}
    kinds |= {g: kind for g, k in known.items() if (kind := k.get(job.setting(g, "_name")))}
    return {group: kind for group, kind in kinds.items() if dataclasses.is_dataclass(kind)}


def keys_of(kind: type | None) -> list[str]:
    """Return the config keys of a dataclass; none without one."""
    return [f.name for f in dataclasses.fields(kind)] if kind else []


def _nearest(name: str, known: Collection[str]) -> str:
    """Return the cure for the unknown name of a model, task or the like."""
    few = len(known) <= FEW
    return similar(name, known) or (
        choose_from(known) if few else "'diverse-mha options' lists names"
    )


def choose_from(known: Collection[str]) -> str:
    """Return the cure with all names."""
    return f"choose from {', '.join(sorted(known))}"


def cure_for(job: Request, group: str, key: str) -> str:
    """Return the cure for a key that a group lacks: where it is, what has it, or similar keys."""
    from diverse_mha.fairseq_fixes.command_line import having

    places = keys_of_options(job)
    if key in places:
        return f"it is {places[key]}"
    for owner, choice in {"criterion": "--criterion", "model": "--arch"}.items():
        if names := having(key, choice, str(job.setting(owner, "_name"))):
            return f"give {owner}._name={' or '.join(names)}, or leave the key out"
    elsewhere = {name: place for name, place in places.items() if not place.endswith("._name")}
    near = similar(key, keys_of(schemas(job)[group])) or similar(key, elsewhere, elsewhere.get)
    return near or LISTED


def similar(name: str, known: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """Return the cure with up to three similar names as ``shown``, or an empty string."""
    close = [shown(one) for one in difflib.get_close_matches(name, known, n=3)]
    return f"the nearest {'are' if close[1:] else 'is'} {', '.join(close)}" if close else ""


def keys_of_options(job: Request) -> dict[str, str]:
    """Return a dictionary from every option to its config key in the recipe."""
    names, kinds = names_of_groups(), schemas(job)
    keys = {("arch" if group == "model" else group): f"{group}._name" for group in names}
    # fairseq's own groups come first: they win if a model or task has an option of the same name.
    for group in sorted(kinds, key=names.__contains__):
        for key in keys_of(kinds[group]):
            keys.setdefault(key, f"{group}.{key}")
    return keys
