"""Runs fairseq-hydra-train for ``scripts/train.sh --config``, with errors in one line."""

import logging
import os
import re
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli, user_error_in
from diverse_mha.common.new_folder import removed_if_refused
from diverse_mha.common.options import as_keys
from diverse_mha.training import batch, checks, precision, train
from diverse_mha.training.fairseq_train import first_process_reports
from diverse_mha.training.log import TRAIN_LOG
from diverse_mha.training.terminal import quiet_console

CURE = f"correct it in the recipe or on the command line; {checks.LISTED}"
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
    given = (word for word in job.arguments if checks.name_in(word) in (group, f"{group}.{key}"))
    culprit = next(given, job.config)
    if "not in 'FairseqConfig'" in joined and group not in (groups := checks.groups_in(job)):
        cure = checks.similar(group, groups) or checks.choose_from(groups)
        return UserError(f"{culprit}: there is no group {group}; {cure}")
    known = checks.keys_of(checks.schemas(job).get(group))
    if key and known and key not in known and "." not in key:
        return UserError(f"{culprit}: {group} has no {key}; {checks.cure_for(job, group, key)}")
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
        groups = [group for group, kind in checks.schemas(job).items() if kind.__name__ == owner[2]]
        if groups:
            return groups[0], owner[1]
        if owner[2] == "FairseqConfig":
            return owner[1], ""
    return "", ""


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
        raise UserError(as_keys(str(refused), checks.keys_of_options(job))) from None


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

    checks.check(job)
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
        if unknown := checks.unknown_name(job):
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


def job_of(words: Sequence[str]) -> train.Request:
    """Return the request in the command line that the launcher wrote for fairseq-hydra-train."""
    place = {name: words.index(name) + 1 for name in ("--config-dir", "--config-name")}
    folder, name = (words[position] for position in place.values())
    # A path may have "=" in it, too.
    others = (word for at, word in enumerate(words) if at not in place.values())
    settings = [word for word in others if "=" in word and not word.startswith("-")]
    recipe = Path(folder, f"{name}.yaml")
    return train.parse(["--config", str(recipe), *settings])


if __name__ == "__main__":
    run_cli(main)
