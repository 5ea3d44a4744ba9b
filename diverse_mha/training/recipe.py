"""Runs fairseq-hydra-train for ``scripts/train.sh --config``, with errors in one line."""

import dataclasses
import difflib
import logging
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import diverse_mha
from diverse_mha.common.errors import UserError, run_cli, user_error_in
from diverse_mha.common.files import CONFIGS, USER_DIR
from diverse_mha.common.options import as_keys
from diverse_mha.common.plugins import import_plugin
from diverse_mha.evaluation import pipeline
from diverse_mha.training import batch, compose, precision, train
from diverse_mha.training.fairseq_train import first_process_reports
from diverse_mha.training.terminal import quiet_console

CURE = "correct it in the recipe or on the command line; configs/ and docs/options.md list the keys"
_LEFT_OUT = re.compile(r"(full_key|\w+_type)\b|Set the|To append")


def explain(job: train.Request, error: BaseException) -> UserError:
    """Return an error of Hydra or OmegaConf, with its causes, as an error of one line."""
    from diverse_mha.fairseq_fixes.command_line import having

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
    cure = CURE
    if owner := re.search(r"Key '(\w+)' not in", " ".join(messages)):
        for group, choice in {"criterion": "--criterion", "model": "--arch"}.items():
            chosen = str(job.setting(group, "_name"))
            if names := having(owner[1], choice, chosen):
                key = f"{group}._name={' or '.join(names)}"
                if chosen in names:  # the key is in the wrong group
                    key = f"{group}.{owner[1]}"
                return UserError(f"{job.config}: {messages[0]}; give {key}, or leave the key out")
    path = re.search(r"override '\+*([\w.]+)'", " ".join(messages))
    group, _, key = (path[1] if path else "").partition(".")
    known = _keys(schemas(job).get(group))
    if key and known and key not in known and "." not in key:
        return UserError(f"{job.config}: {group} has no {key}; {_nearest(key, known)}")
    if any("not in struct" in line for line in messages):
        cure += "; write +KEY=VALUE for a key that the recipe lacks"
    return UserError(f"{job.config}: {', '.join(messages)}; {cure}")


def names_of_groups() -> dict[str, Iterable[str]]:
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


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3) or sorted(known)[:8]
    return f"the nearest are {', '.join(close)}"


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
        with first_process_reports():
            _train(job)
    except Exception as error:
        refused = user_error_in(error)
        if refused is None:
            raise
        raise UserError(as_keys(str(refused), keys_of_options(job))) from None


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
    except (KeyError, TypeError, AttributeError):
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
    # Hydra searches the recipe's folder, and the search path that scripts/train.sh adds.
    paths = [word for word in job.arguments if word.startswith("hydra.searchpath=")]
    if any(str(CONFIGS) not in word for word in paths):
        return  # the user's own search path may define other groups
    kinds = schemas(job)
    places = [job.config.parent, *([CONFIGS] if paths else [])]
    files = {path.name for place in places for path in place.glob("*/")}
    names = names_of_groups()
    groups = {"hydra", *names, *kinds, *files, *pipeline.GROUPS}
    for word in job.arguments:
        name, _, value = word.lstrip("+~").partition("=")
        group, _, key = name.partition("@")[0].partition(".")
        if group.split("/")[0] not in groups:
            near = difflib.get_close_matches(group, groups, 1)
            cure = f"write {near[0]}" if near else f"choose from {', '.join(sorted(groups))}"
            raise UserError(f"{word}: there is no group {group}; {cure}")
        if not key and group in names.keys() - files and value not in ("null", *names[group]):
            raise UserError(f"{word}: there is no {value!r}; {_nearest(value, names[group])}")
        if not key and group in files - compose.groups_of(job.config).keys() and word[0] != "+":
            raise UserError(f"{word}: {job.config.stem} has no group {group}; +{word} adds it")
        known = _keys(kinds.get(group))
        if key and "." not in key and known and key not in known:
            raise UserError(f"{word}: {group} has no {key}; {_nearest(key, known)}")


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
