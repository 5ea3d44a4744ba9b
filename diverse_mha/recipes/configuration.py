"""fairseq's configuration of a recipe, checked before a corpus is prepared or a batch is read.

``train`` and ``run`` call :func:`check` once, which compares names, keys and values with fairseq's
dataclasses; ``training/worker.py`` then calls :func:`merge` in each process, and before, in one of
them, :func:`check_model`. It builds the model and the criterion without memory, so that a method
that does not fit the model is refused before the preparation. :func:`configure` does all three.
"""

import difflib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any, cast

import torch
from fairseq import criterions, models, registry, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import omegaconf_no_object_check
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

import diverse_mha
from diverse_mha.common.errors import Option, UserError, as_option
from diverse_mha.common.files import CONFIGS, USER_DIR
from diverse_mha.common.plugins import import_plugin
from diverse_mha.fairseq_fixes.guards import having, task_for
from diverse_mha.methods.diversity import diversity_options
from diverse_mha.models.config import SHAPE, seam_options
from diverse_mha.recipes.recipe import (
    BASELINE,
    METHOD,
    Recipe,
    compose,
    folders_beside,
    names_in,
    read,
    spell,
)
from diverse_mha.recipes.steps import check_scoring

_FEW = 30  # names that a message lists
_UNSET = object()
_WORDS = 1_000_000  # size of the dictionary for models without memory


def configure(recipe: Recipe) -> DictConfig:
    """Return the configuration for ``fairseq_cli.train.main``.

    Raises:
        UserError: for names, keys and values that do not exist or do not go together, and for a
            method that does not fit the model.
    """
    cfg = merge(check(recipe))
    check_model(recipe, cfg)
    return cfg


def check_model(recipe: Recipe, cfg: DictConfig) -> None:
    """Raise an error if the recipe's model and criterion cannot be built; name what fits."""
    try:
        with errors_in_keys(cfg):
            _build_without_memory(cfg)
    except UserError as error:
        raise _unfit(recipe, error) from None


def import_parts(recipe: Recipe) -> None:
    """Import what registers models, tasks and the like: this package, and the user's plugin."""
    diverse_mha.register()
    try:
        import_plugin(recipe.plugin)
    except UserError as error:
        raise in_keys(error, {"user_dir": "common.user_dir"}) from None


def check(recipe: Recipe) -> dict[str, dict]:
    """Return a recipe's settings for fairseq, by group, without interpolations.

    Raises:
        UserError: for names, keys and values that do not exist or do not go together.
    """
    import_parts(recipe)
    settings = _check_names(recipe)
    check_scoring(recipe.resolved, recipe.path)
    return settings


def _check_names(recipe: Recipe) -> dict[str, dict]:
    """Return a recipe's settings; refuse names and keys that do not exist, and wrong values."""
    settings = {
        group: dict(values) if isinstance(values, Mapping) else {"_name": values}
        for group, values in recipe.resolved.items()
    }
    kinds = _kinds(settings)
    for group in settings:
        if group not in kinds:
            known = {*kinds, *folders_beside(recipe.path)} - {"_name"}
            raise UserError(f"{_where(recipe, group)}: there is no group {group}; "
                            f"{similar(group, known) or choose_from(known)}")  # fmt: skip
    for group, known in _registered_names().items():
        name = settings.get(group, {}).get("_name")
        if name is not None and name not in known:
            raise UserError(
                f"{_where(recipe, f'{group}._name')}: there is no {name!r}; {_nearest(name, known)}"
            )
    _check_task(recipe, settings)
    _take_named_shape(recipe, settings)
    for group, values in settings.items():
        _check_keys(recipe, group, kinds[group], values, settings)
    _check_preset(recipe, settings, kinds)
    settings["common"] = settings.get("common", {}) | {"user_dir": recipe.plugin or str(USER_DIR)}
    if data := settings.get("task", {}).get("data"):
        folders = str(data).split(os.pathsep)
        settings["task"]["data"] = os.pathsep.join(map(os.path.abspath, folders))
    return settings


def merge(settings: Mapping[str, Mapping]) -> DictConfig:
    """Merge the result of :func:`check` into fairseq's dataclasses."""
    cfg = OmegaConf.structured(FairseqConfig)
    OmegaConf.set_struct(cfg, False)
    cfg = cast("DictConfig", OmegaConf.merge(cfg, dict(settings)))
    add_defaults(cfg)  # model, task, criterion and so on get the defaults of their dataclasses
    with omegaconf_no_object_check():
        values = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
        cfg = OmegaConf.create(cast("dict[str, Any]", values))
    OmegaConf.set_struct(cfg, True)
    return cfg


def _registered_names() -> dict[str, Collection[str]]:
    """Return the registered names of each group: models, tasks, criterions and so on."""
    names = {"model": models.MODEL_DATACLASS_REGISTRY, "task": tasks.TASK_REGISTRY}
    return names | {name: entry["registry"] for name, entry in registry.REGISTRIES.items()}


def _kinds(settings: Mapping[str, Mapping]) -> dict[str, type | None]:
    """Return group -> dataclass with its keys; None for a group whose keys are not declared."""
    known = {"model": models.MODEL_DATACLASS_REGISTRY, "task": tasks.TASK_DATACLASS_REGISTRY}
    known |= {name: entry["dataclass_registry"] for name, entry in registry.REGISTRIES.items()}
    kinds = {f.name: _dataclass(f.type) for f in fields(FairseqConfig)}
    for group, registered in known.items():
        kinds[group] = _dataclass(registered.get((settings.get(group) or {}).get("_name")))
    return kinds


def _dataclass(kind: object) -> type | None:
    return kind if isinstance(kind, type) and is_dataclass(kind) else None


def _check_keys(
    recipe: Recipe, group: str, kind: type | None, values: dict, settings: Mapping
) -> None:
    """Raise an error for a key that a group lacks, or a value that does not fit its key.

    Options of our methods that are null, or off as in ``method=baseline``, are left out for models
    and criterions of fairseq, which lack them. The keys of a part without a dataclass are unknown.
    """
    off = read(CONFIGS / METHOD / f"{BASELINE}.yaml").get(group) or {}
    known = {f.name: f for f in fields(kind)} if kind else {}
    ours = {option.name for option in (*seam_options(), *diversity_options())}
    for key, value in [*values.items()]:
        if key == "_name" or key in known:
            continue
        if key in ours and (value is None or value == off.get(key, _UNSET)):
            del values[key]
        elif kind is not None and group != "scoring":
            cure = _cure_for(group, key, values.get("_name"), settings)
            raise UserError(f"{_where(recipe, f'{group}.{key}')}: {group} has no {key}; {cure}")
    if kind is None:
        return
    for key, error in _misfits(kind, values):
        reason = str(error).splitlines()[0].rstrip(".")
        point = str(values[key]).replace(",", ".")
        if "is not a ListConfig" in reason:
            reason = f"must be a list; give [{values[key]}]"
        elif point != str(values[key]) and not [*_misfits(kind, {key: point})]:
            reason = f"give {point}"
        raise UserError(f"{_where(recipe, f'{group}.{key}')}: {reason}")


def _misfits(kind: type, values: Mapping) -> Iterator[tuple[str, Exception]]:
    """Yield the keys whose values OmegaConf cannot convert to the types of a dataclass."""
    schema = OmegaConf.structured(kind)
    known = {key: value for key, value in values.items() if key in schema}
    try:
        OmegaConf.merge(schema, known)
    except OmegaConfBaseException:
        for key, value in known.items():
            try:
                OmegaConf.merge(schema, {key: value})
            except OmegaConfBaseException as error:
                yield key, error


def _check_task(recipe: Recipe, settings: Mapping[str, Mapping]) -> None:
    """Raise an error if the model does not fit the task, such as translation for text alone."""
    name, task = (settings.get(group, {}).get("_name") for group in ("model", "task"))
    kind = tasks.TASK_DATACLASS_REGISTRY.get(task)
    has_blocks = is_dataclass(kind) and "tokens_per_sample" in {f.name for f in fields(kind)}
    if wanted := task_for(name, task, has_blocks=has_blocks):
        raise UserError(
            f"{_where(recipe, 'model._name')}: does not go with task._name={task}; give "
            f"task._name={wanted}"
        )


def _take_named_shape(recipe: Recipe, settings: dict) -> None:
    """Drop the recipe's shape if the command line names an architecture that has one.

    ``model._name=transformer_disagree_iwslt_de_en`` means that shape, whatever the recipe's widths;
    shapes on the command line still win.
    """
    name = settings.get("model", {}).get("_name")
    if "model._name" not in recipe.given or not getattr(
        models.MODEL_REGISTRY.get(name), "named_shape", False
    ):
        return
    for key in SHAPE & settings["model"].keys():
        if f"model.{key}" not in recipe.given:
            del settings["model"][key]


def _check_preset(recipe: Recipe, settings: Mapping, kinds: Mapping) -> None:
    """Raise an error if the model's name brings another method than the chosen one."""
    name, kind = settings.get("model", {}).get("_name"), kinds.get("model")
    if METHOD not in recipe.choices or not name or kind is None:
        return
    preset = {f.name: f.default for f in fields(kind)}
    for option in seam_options():
        brought = preset.get(option.name, option.default)
        wanted = settings["model"].get(option.name, option.default)
        if brought not in (option.default, wanted):
            plain = name.replace("_coda", "_disagree").replace("_routing", "_disagree")
            raise UserError(
                f"{_where(recipe, 'model._name')}: sets {option.name}={brought}, which "
                f"method={recipe.choices[METHOD]} does not; give model._name={plain}, and name "
                "all methods by method=ONE+OTHER"
            )


class _AnyDictionary(Dictionary):
    """A dictionary that is larger than every cutoff."""

    def __len__(self) -> int:
        return _WORDS


def _build_without_memory(cfg: DictConfig) -> None:
    """Build model and criterion on torch's meta device, for the checks that this makes.

    Errors other than UserError are left to the training, which has the real task.
    """
    words = _AnyDictionary()
    task = SimpleNamespace(
        cfg=cfg.task, source_dictionary=words, target_dictionary=words, dictionary=words,
        sentences=1, labels=["a", "b"], groups=[],
    )  # fmt: skip
    try:
        with torch.device("meta"), open_dict(cfg):
            # fairseq says that it takes a dataclass, and always passes this.
            plain = cast("Any", OmegaConf.create(OmegaConf.to_container(cfg.model)))
            model = models.build_model(plain, task)
            criterion = criterions.build_criterion(cfg.criterion, task)
        if (check_criterion := getattr(criterion, "check_model", None)) is not None:
            check_criterion(model)
    except UserError:
        raise
    except Exception:
        return


def _unfit(recipe: Recipe, error: UserError) -> UserError:
    """Return the error of a model that cannot be built; if due to the method, name what fits."""
    method = recipe.choices.get(METHOD, BASELINE)
    if method == BASELINE or not _builds(recipe, BASELINE):
        return error
    fitting = _fitting(recipe)
    close = difflib.get_close_matches(method, fitting, 3) or fitting
    return UserError(
        f"method={method}: does not fit {recipe.name} ({str(error).partition(';')[0]}); choose "
        f"from {', '.join(close)}"
    )


def _fitting(recipe: Recipe) -> list[str]:
    """Return the methods that the recipe can be trained with."""
    return [name for name in names_in(recipe.path, METHOD) if _builds(recipe, name)]


def _builds(recipe: Recipe, method: str) -> bool:
    """Return True if the recipe can be trained with another method."""
    choices = {**recipe.choices, METHOD: method}
    other = Recipe(recipe.path, choices, recipe.given, compose(recipe.path, choices, recipe.given))
    try:
        _build_without_memory(merge(_check_names(other)))
    except UserError:
        return False
    return True


def _where(recipe: Recipe, key: str) -> str:
    """Return an override as given, or the recipe and its key with the value."""
    given = [name for name in recipe.given if name == key or name.startswith(f"{key}.")]
    value = recipe.get(given[0] if given else key)
    shown = given[0] if given else key
    if not isinstance(value, Mapping):
        shown += f"={spell(value)}"
    return shown if given else f"{recipe.path}: {shown}"


def _nearest(name: str, known: Collection[str]) -> str:
    few = len(known) <= _FEW
    return similar(str(name), known) or (
        choose_from(known) if few else "'diverse-mha options' lists names"
    )


def choose_from(known: Collection[str]) -> str:
    """Return the cure with all names."""
    return f"choose from {', '.join(sorted(known))}"


def similar(name: str, known: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """Return the cure with up to three similar names as ``shown``, or an empty string."""
    close = [shown(one) for one in difflib.get_close_matches(name, known, n=3)]
    return f"the nearest {'are' if close[1:] else 'is'} {', '.join(close)}" if close else ""


def _cure_for(group: str, key: str, name: str | None, settings: Mapping) -> str:
    """Return the cure for a key that a group lacks: where it is, what has it, or similar keys."""
    places = keys_of_options(settings)
    if key in places:
        return f"it is {places[key]}"
    for owner, choice in {"criterion": "criterion", "model": "arch"}.items():
        if names := having(key, choice, str(settings.get(owner, {}).get("_name"))):
            return f"give {owner}._name={' or '.join(names)}, or leave the key out"
    kind = _kinds(settings).get(group)
    own = [f.name for f in fields(kind)] if kind else []
    return (
        similar(key, own)
        or similar(key, places, places.__getitem__)
        or ("configs/ and docs/options.md list the keys")
    )


def keys_of_options(settings: Mapping) -> dict[str, str]:
    """Return a dictionary from every option to its config key in a recipe."""
    kinds = _kinds(settings)
    names = _registered_names()
    keys = {("arch" if group == "model" else group): f"{group}._name" for group in names}
    # fairseq's own groups come first: they win if a model or task has an option of the same name.
    for group in sorted(kinds, key=names.__contains__):
        kind = kinds[group]
        for f in fields(kind) if kind else ():
            keys.setdefault(f.name, f"{group}.{f.name}")
    return keys


@contextmanager
def errors_in_keys(cfg: Mapping) -> Iterator[None]:
    """Context manager: let errors name a recipe's config keys."""
    try:
        yield
    except UserError as error:
        raise in_keys(error, keys_of_options(cfg)) from None


def in_keys(error: UserError, keys: Mapping[str, str]) -> UserError:
    """Return an error with its options as a recipe's keys: ``optimization.lr=[0.1]``.

    ``keys`` maps names of options to keys.
    """

    def key(option: Option) -> str:
        name = keys.get(option.name)
        if name is None:
            return as_option(option)
        return name if option.value is None else f"{name}={spell(option.value)}"

    return UserError(error.spelt(key))
