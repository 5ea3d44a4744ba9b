"""Keeps checkpoints from running code: fairseq-fixed 0.12.3.1 evaluates their options as Python.

Its modules get a reader of literals under the name ``eval``. The functions that read a
checkpoint's options, and build from them, are wrapped.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from fairseq import checkpoint_utils, criterions, models
from fairseq.data import encoders
from hydra.errors import HydraException
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from diverse_mha.common.errors import OptionError, UserError, describe_os_error
from diverse_mha.common.old_names import renew
from diverse_mha.common.options import flag
from diverse_mha.fairseq_fixes.checkpoint_options import check_options, evaluate_option
from diverse_mha.fairseq_fixes.replacing import in_place_of

#: What wrong options raise while a model is built. Callers handle RuntimeError (other shapes) and
#: AssertionError (other data) themselves.
BUILDING_ERRORS = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    ImportError,
    OmegaConfBaseException,
)
#: The checkpoint that is being read, and the options that its reader overrides.
_reading: ContextVar[tuple[str, frozenset]] = ContextVar("reading", default=("", frozenset()))


@contextmanager
def reading(path: str, overrides: Mapping | None) -> Iterator[None]:
    """Explain errors that the checkpoint's options cause; ``overrides`` may name files."""
    _reading.set((path, frozenset(_option_names(overrides or {}))))
    with options_explained():
        yield


def _option_names(overrides: Mapping) -> list[str]:
    names = list(overrides)
    for value in overrides.values():
        names += _option_names(value) if isinstance(value, Mapping) else []
    return names


@contextmanager
def options_explained(kinds=(OmegaConfBaseException, HydraException)):
    """Turn errors of these kinds, which a checkpoint's options cause, into one line."""
    try:
        yield
    except UserError:
        raise
    except kinds as error:
        first = next(iter(str(error).splitlines()), "")
        key = getattr(error, "full_key", None)  # of OmegaConf's
        where = f"{_reading.get()[0]}: its option{f' {key}' if key else 's'}"
        why = f"cannot be used: {type(error).__name__}: {first}"
        if "expected one of" in first:
            why += "; one of your own needs --user-dir"
        raise OptionError(f"{where} {why}") from error


def install() -> None:
    """Give all imported modules of fairseq the reader of literals."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "fairseq" and module is not None:
            module.eval = evaluate_option


@in_place_of(checkpoint_utils, "_upgrade_state_dict")
def _checked(upgrade, state):
    path, given = _reading.get()
    renew(state)
    for options in (state.get("args"), state.get("cfg")):
        if options is not None:
            check_options(path, options, given)
    return upgrade(state)


@in_place_of(checkpoint_utils, "load_model_ensemble_and_task")
def _explained(load, *args, **kwargs):
    with options_explained(BUILDING_ERRORS):
        try:
            return load(*args, **kwargs)
        except FileNotFoundError as error:
            path = _reading.get()[0]
            raise OptionError(f"{path}: wants {describe_os_error(error)}") from error


@in_place_of(models, "build_model")
def _explained_model(build, cfg, task, from_checkpoint=False):
    try:
        with options_explained(Exception if from_checkpoint else ()):
            return build(cfg, task, from_checkpoint)
    except OptionError as error:
        path = _reading.get()[0]
        if not from_checkpoint or path in str(error):
            raise
        raise OptionError(f"{path}: {error}") from error


@in_place_of(criterions, "build_criterion")
def _explained_criterion(build, cfg, task, *args, **kwargs):
    # fairseq-validate builds after reading a checkpoint, a training before.
    with options_explained(OmegaConfBaseException if _reading.get()[0] else ()):
        return build(cfg, task, *args, **kwargs)


@in_place_of(encoders, "build_bpe")
def _asking_for_files(build, cfg, *args, **kwargs):
    try:
        return build(cfg, *args, **kwargs)
    except MissingMandatoryValue as error:
        name = str(error.key)
        raise OptionError(
            f"{flag(name)} is missing (from Python: {name}=...); "
            "a file that a checkpoint names is not opened"
        ) from error
