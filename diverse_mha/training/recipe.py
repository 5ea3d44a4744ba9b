"""Runs fairseq-hydra-train for ``scripts/train.sh --config``, with errors in one line."""

import dataclasses
import difflib
import logging
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import diverse_mha
from diverse_mha.common.errors import UserError, run_cli, user_error_in
from diverse_mha.common.files import CONFIGS, USER_DIR
from diverse_mha.common.new_folder import removed_if_refused
from diverse_mha.common.options import as_keys
from diverse_mha.common.plugins import import_plugin
from diverse_mha.evaluation import pipeline
from diverse_mha.training import batch, compose, precision, train
from diverse_mha.training.fairseq_train import first_process_reports
from diverse_mha.training.log import TRAIN_LOG
from diverse_mha.training.terminal import quiet_console

LISTED = "configs/ and docs/options.md list the keys"
CURE = f"correct it in the recipe or on the command line; {LISTED}"
FEW = 30  # names that a message lists
_LEFT_OUT = re.compile(r"(full_key|\w+_type)\b|Set the|To append")


def explain(job: train.Request, error: BaseException) -> UserError:
    """Return an error of Hydra or OmegaConf, with its causes, as an error of one line."""
    messages: list[str] = []
    while error is not None:
        # Hydra lists its search path at the end.
        text = str(error).partition("Config search path:")[0]
        lines = [line.strip().rstrip(".:") for line in text.splitlines()]
        lines = [line for line in lines if line and not _LEFT_OUT.match(line)]
        key = re.search(r"full_key: *(\S+)", text)
        if key and not any(key[1] in line for line in lines):
            lines.insert(0, key[1])
        messages += [line for line in lines if line not in messages]
        error = error.__cause__
    joined = " ".join(messages)
    group, key = _key_in(job, joined)
    given = (word for word in job.arguments if _name_in(word) in (group, f"{group}.{key}"))
    culprit = next(given, job.config)
    if "not in 'FairseqConfig'" in joined and group not in (groups := _groups(job)):
        cure = _similar(group, groups) or _all(groups)
        return UserError(f"{culprit}: there is no group {group}; {cure}")
    known = _keys(schemas(job).get(group))
    if key and known and key not in known and "." not in key:
        return UserError(f"{culprit}: {group} has no {key}; {_cure(job, group, key)}")
    cure = CURE
    if any("not in struct" in line for line in messages):
        cure += "; write +KEY=VALUE for a key that the recipe lacks"
    return UserError(f"{job.config}: {', '.join(messages)}; {cure}")


def _key_in(job: train.Request, message: str) -> tuple[str, str]:
    """Return group and key that a message of Hydra or OmegaConf names; empty: none."""
    if path := re.search(r"override '\+*([\w.]+)'", message):
        group, _, key = path[1].partition(".")
        return group, key
    if owner := re.search(r"Key '(\w+)' not in '(\w+)'", message):
        groups = [group for group, kind in schemas(job).items() if kind.__name__ == owner[2]]
        if groups:
            return groups[0], owner[1]
        if owner[2] == "FairseqConfig":
            return owner[1], ""
    return "", ""


def _name_in(word: str) -> str:
    """Return the group or key of an override."""
    return re.split("[@=]", word.lstrip("+~"))[0]


def names_of_groups() -> dict[str, Collection[str]]:
    """Return the registered names of each group: models, tasks, criterions and so on."""
    from fairseq import models, registry, tasks

    names = {"model": models.MODEL_DATACLASS_REGISTRY, "task": tasks.TASK_REGISTRY}
    return names | {name: entry["registry"] for name, entry in registry.REGISTRIES.items()}


def unknown_name(job: train.Request) -> str | None:
    """Return a message if a recipe names an unregistered model, task or the like; else None."""
    for group, known in names_of_groups().items():
        # This reads both forms: model=NAME on the command line, model._name in the file.
        name = job.setting(group, "_name")
        if name is not None and name not in known:
            return f"{group}._name: there is no {name!r}; {_nearest(name, known)}"
    return None


def schemas(job: train.Request) -> dict[str, type]:
    """Return group -> dataclass with the config keys of the recipe's model, task and so on."""
    from fairseq import models, registry, tasks
    from fairseq.dataclass.configs import FairseqConfig

    known = {"model": models.MODEL_DATACLASS_REGISTRY, "task": tasks.TASK_DATACLASS_REGISTRY}
    known |= {name: entry["dataclass_registry"] for name, entry in registry.REGISTRIES.items()}
    kinds = {f.name: f.type for f in dataclasses.fields(FairseqConfig)}
    kinds |= {g: kind for g, k in known.items() if (kind := k.get(job.setting(g, "_name")))}
    return {group: kind for group, kind in kinds.items() if dataclasses.is_dataclass(kind)}


def _keys(kind: type | None) -> list[str]:
    return [f.name for f in dataclasses.fields(kind)] if kind else []


def _nearest(name: str, known: Collection[str]) -> str:
    """Return the cure for the unknown name of a model, task or the like."""
    few = len(known) <= FEW
    return _similar(name, known) or (_all(known) if few else "'diverse-mha options' lists names")


def _all(known: Collection[str]) -> str:
    return f"choose from {', '.join(sorted(known))}"


def _cure(job: train.Request, group: str, key: str) -> str:
    """Return the cure for a key that a group lacks: where it is, what has it, or similar keys."""
    from diverse_mha.fairseq_fixes.command_line import having

    places = keys_of_options(job)
    if key in places:
        return f"it is {places[key]}"
    for owner, choice in {"criterion": "--criterion", "model": "--arch"}.items():
        if names := having(key, choice, str(job.setting(owner, "_name"))):
            return f"give {owner}._name={' or '.join(names)}, or leave the key out"
    elsewhere = {name: place for name, place in places.items() if not place.endswith("._name")}
    near = _similar(key, _keys(schemas(job)[group])) or _similar(key, elsewhere, elsewhere.get)
    return near or LISTED


def _similar(name: str, known: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """Return the cure with up to three similar names as ``shown``, or an empty string."""
    close = [shown(one) for one in difflib.get_close_matches(name, known, n=3)]
    return f"the nearest {'are' if close[1:] else 'is'} {', '.join(close)}" if close else ""


def keys_of_options(job: train.Request) -> dict[str, str]:
    """Return a dictionary from every option to its config key in the recipe."""
    names, kinds = names_of_groups(), schemas(job)
    keys = {("arch" if group == "model" else group): f"{group}._name" for group in names}
    # fairseq's own groups come first: they win if a model or task has an option of the same name.
    for group in sorted(kinds, key=names.__contains__):
        for key in _keys(kinds[group]):
            keys.setdefault(key, f"{group}.{key}")
    return keys


def main() -> None:
    """Run fairseq-hydra-train with the arguments of the command line."""
    job = job_of(sys.argv[1:])
    try:
        with first_process_reports(), _new_folder(job):
            _train(job)
    except Exception as error:
        refused = user_error_in(error)
        if refused is None:
            raise
        raise UserError(as_keys(str(refused), keys_of_options(job))) from None


def _new_folder(job: train.Request) -> AbstractContextManager:
    """Return a context manager that removes the run's folder if the training is refused.

    The log makes the folder before the recipe is checked. With several processes, only the first
    removes it.
    """
    rank = job.setting("distributed_training", "distributed_rank")
    folder = str(job.setting("checkpoint", "save_dir") or "checkpoints")
    folder = folder.replace("${hydra:runtime.cwd}", os.getcwd())
    # status.json marks a training that has begun, and no_save writes none.
    if rank not in (None, "0") or "${" in folder or job.flag("checkpoint", "no_save"):
        return nullcontext()
    return removed_if_refused(folder, (TRAIN_LOG,))


def _train(job: train.Request) -> None:
    logging.getLogger("hydra").setLevel(logging.INFO)  # fairseq enables all loggers
    from fairseq_cli import hydra_train
    from hydra.core.utils import JobReturn
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from diverse_mha.fairseq_fixes.patch import patched

    check(job)
    chosen = [choose(job) for choose in (precision.choose, batch.choose)]
    sys.argv += [word for words, _ in chosen for word in words]
    notes = "\n".join(note for _, note in chosen if note)
    if job.setting("distributed_training", "distributed_rank") not in (None, "0"):
        notes = ""  # the first process logs the notes
    try:
        result = patched(JobReturn, "return_value", JobReturn.return_value.getter(_result))
        with quiet_console(job, notes), result:
            hydra_train.cli_main()
    except (HydraException, OmegaConfBaseException) as error:
        raise explain(job, error) from None
    except (KeyError, TypeError, AttributeError, AssertionError):
        if unknown := unknown_name(job):
            raise UserError(f"{job.config}: {unknown}") from None
        raise  # a bug, not a user error
    except ValueError as error:
        refused = error.__cause__
        if isinstance(error, UserError) or not isinstance(refused, OSError):
            raise
        raise refused from None  # the log's folder cannot be used


def _result(finished):
    """Return a job's result or raise its error, without Hydra's heading above the error."""
    if isinstance(finished._return_value, BaseException):
        raise finished._return_value
    return finished._return_value


def check(job: train.Request) -> None:
    """Raise an error for what a training would refuse: names, groups and keys that do not exist.

    The user's plugin is imported first, because it adds names and keys.
    """
    diverse_mha.register()
    plugin = str(job.setting("common", "user_dir") or "")
    plugin = plugin.replace("${hydra:runtime.cwd}", os.getcwd())
    if plugin and "${" not in plugin and Path(plugin).name != USER_DIR.name:
        import_plugin(plugin)
    if unknown := unknown_name(job):
        raise UserError(f"{job.config}: {unknown}")
    check_settings(job)
    check_model(job)


def check_settings(job: train.Request) -> None:
    """Raise an error for ``GROUP=NAME`` and ``GROUP.KEY=VALUE`` if no such group or key exists.

    Hydra accepts ``+GROUP=NAME`` and ``++GROUP.KEY=VALUE``, but nothing reads them. It refuses the
    others, but only when it trains.
    """
    if any(str(CONFIGS) not in word for word in _search_paths(job)):
        return  # the user's own search path may define other groups
    names, kinds, folders, groups = names_of_groups(), schemas(job), _folders(job), _groups(job)
    for word in job.arguments:
        group, _, key = _name_in(word).partition(".")
        value = word.partition("=")[2]
        if group.split("/")[0] not in groups:
            cure = _similar(group, groups) or _all(groups)
            raise UserError(f"{word}: there is no group {group}; {cure}")
        if not key and group in names.keys() - folders and value not in ("null", *names[group]):
            raise UserError(f"{word}: there is no {value!r}; {_nearest(value, names[group])}")
        lacking = folders - names.keys() - compose.groups_of(job.config).keys()
        if not key and group in lacking and not word.startswith("+"):
            raise UserError(f"{word}: {job.config.stem} has no group {group}; +{word} adds it")
        known = _keys(kinds.get(group))
        if key and "." not in key and known and key not in known:
            raise UserError(f"{word}: {group} has no {key}; {_cure(job, group, key)}")


def _groups(job: train.Request) -> set[str]:
    """Return the groups of fairseq, of Hydra, of evaluation, and of folders of recipes."""
    return {"hydra", *names_of_groups(), *schemas(job), *pipeline.GROUPS, *_folders(job)}


def _folders(job: train.Request) -> set[str]:
    """Return the groups that are folders: beside the recipe, and those of ``configs/``."""
    depths = ("*/*.yaml", "*/*/*.yaml")  # method/coda.yaml, or a group in a group
    return {
        file.relative_to(place).parts[0]
        for place in (job.config.parent, CONFIGS)
        for depth in depths
        for file in place.glob(depth)
    }


def _search_paths(job: train.Request) -> list[str]:
    return [word for word in job.arguments if word.startswith("hydra.searchpath=")]


def check_model(job: train.Request) -> None:
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


def job_of(words: Sequence[str]) -> train.Request:
    """Return the request in the command line that the launcher wrote for fairseq-hydra-train."""
    given = dict(zip(words, words[1:], strict=False))
    recipe = Path(given["--config-dir"], given["--config-name"] + ".yaml")
    settings = [word for word in words if "=" in word and not word.startswith("-")]
    return train.parse(["--config", str(recipe), *settings])


if __name__ == "__main__":
    run_cli(main)
