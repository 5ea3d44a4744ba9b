"""Opens a run's folder for evaluation, with the averaging and search options of its recipe."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.progress import counted
from diverse_mha.evaluation.average import (
    average_checkpoints,
    averaged_from,
    by_number,
    newest_checkpoints,
)
from diverse_mha.evaluation.states import open_state, settings, write_state, written_by
from diverse_mha.recipes.steps import AVERAGED, BEST, GROUPS, LAST, Pipeline, read_pipeline


def open_folders(name: str, words: Sequence[str]) -> tuple[str, list[str]]:
    """Replace the run folders in a command line by their checkpoints.

    Args:
        name: a checkpoint or a run's folder, or several joined by ':' (an ensemble).
        words: the arguments of the command line.

    Returns:
        ``name`` with checkpoints only, and the arguments. The options of the first folder's recipe
        come before ``words``, which override them.
    """
    parts, options = name.split(os.pathsep), []
    folders = [part for part in parts if Path(part).is_dir()]
    for folder in folders:
        pipeline = pipeline_of(Path(folder))
        model = _model(Path(folder), pipeline)
        parts[parts.index(folder)] = str(model)
        if folder == folders[0]:
            options = [*_joined(pipeline.options)]
        print(" ".join([f"{folder}: its recipe uses {model.name}", *options]), flush=True)
    return os.pathsep.join(parts), [*options, *words]


def pipeline_of(folder: Path) -> Pipeline:
    """Read the pipeline saved in a run's checkpoints."""
    from fairseq.dataclass.configs import GenerationConfig

    file = next((folder / name for name in (LAST, BEST) if (folder / name).is_file()), None)
    if file is None:
        raise UserError(f"{folder}: has no {BEST} or {LAST}; name a checkpoint or a run's folder")
    state = open_state(file)
    groups = ("task", "dataset", *GROUPS) if state.get("cfg") is not None else ("task",)
    return read_pipeline({g: settings(state, g) for g in groups}, file, vars(GenerationConfig()))


def _model(folder: Path, pipeline: Pipeline) -> Path:
    """Return the checkpoint to evaluate; first write a missing or outdated averaged checkpoint."""
    if not pipeline.average:
        # A training that was ended before its first validation has no best checkpoint.
        return folder / (pipeline.trained if (folder / BEST).is_file() else LAST)
    output, last = folder / AVERAGED, folder / LAST
    if output.is_file():
        newer = not last.is_file() or output.stat().st_mtime > last.stat().st_mtime
        _check_averaged(output, pipeline, newer)
        if newer:
            return output
        if not written_by("average")(output):
            raise UserError(
                f"{output}: was not written by diverse-mha average; move it, or name a checkpoint"
            )
    paths = newest_checkpoints(folder, pipeline.average, pipeline.average_by, recipe=True)
    write_state(average_checkpoints(paths), output)
    return output


def _check_averaged(output: Path, pipeline: Pipeline, newer: bool) -> None:
    """Raise an error if a file is the user's average of other checkpoints than the recipe's.

    Such a file is neither evaluated as the recipe's nor replaced. An average of the recipe's kind
    and number of checkpoints is the recipe's; unless it is ``newer`` than the run's last
    checkpoint, these need not be the newest. A file that does not tell, and one in a run with too
    few checkpoints for the recipe, is not looked into.
    """
    count, by = pipeline.average, pipeline.average_by
    names = averaged_from(output)
    if not names:
        return
    averaged = by_number(map(Path, names), by)
    # Averaged checkpoints may have been deleted since, so that the newest ones are among both.
    newest = sorted(averaged | by_number(output.parent.iterdir(), by))[-count:]
    alike = len(averaged) == len(names) == count
    if len(newest) < count or (alike and (not newer or sorted(averaged) == newest)):
        return
    raise UserError(
        f"{output}: is the average of {counted(len(names), 'checkpoint')}, {names[0]} to "
        f"{names[-1]}, not of the newest {count} by {by} as in the recipe; move it, or name a "
        "checkpoint"
    )


def _joined(options: Sequence[str]) -> Iterator[str]:
    """Yield each option with its value as one word, ``--option=value``.

    parse_known_args would separate an unknown option from its value.
    """
    for number, word in enumerate(options):
        after = options[number + 1 : number + 2]
        if word.startswith("--"):
            takes = after and not after[0].startswith("--")
            yield f"{word}={after[0]}" if takes else word
