"""``diverse-mha average``: averages the parameters of checkpoints.

The result (Vaswani et al. 2017, section 6.1) is a fairseq checkpoint without optimizer state.
"""

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import check_output_file
from diverse_mha.common.progress import counted
from diverse_mha.evaluation.equal_weights import note_equal_weights
from diverse_mha.evaluation.outputs import MADE_BY, add_force, check_replaceable
from diverse_mha.evaluation.states import (
    forget_training,
    open_state,
    write_state,
    written_by,
)
from diverse_mha.fairseq_fixes.dictionaries import Record, check_same, recorded

#: Kind of checkpoint -> form of its name, pattern with its number, setting that saves it.
_KINDS = {
    "epoch": (
        "checkpoint<N>.pt", r"checkpoint(\d+)\.pt", "checkpoint.no_epoch_checkpoints=false"
    ),
    "update": (
        "checkpoint_<epoch>_<N>.pt", r"checkpoint_\d+_(\d+)\.pt",
        "checkpoint.save_interval_updates=N",
    ),
}  # fmt: skip


def by_number(paths: Iterable[Path], by: str) -> dict[int, Path]:
    """Return number -> path of the checkpoints of a kind, ``"epoch"`` or ``"update"``."""
    matches = ((re.fullmatch(_KINDS[by][1], path.name), path) for path in paths)
    return {int(match[1]): path for match, path in matches if match}


def newest_checkpoints(
    folder: str | Path, count: int, by: str = "epoch", *, recipe: bool = False
) -> list[Path]:
    """Return the last ``count`` checkpoints in a run's ``--save-dir``, oldest first.

    Args:
        folder: the run.
        count: number of checkpoints.
        by: ``"epoch"`` for ``checkpoint<N>.pt``, or ``"update"`` for
            ``checkpoint_<epoch>_<updates>.pt``.
        recipe: True if a recipe, not an option, gives ``count`` and ``by``; for messages.
    """
    if count < 1:
        raise UserError(f"--last {count}: must be at least 1")
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give the --save-dir of a training run")
    found = by_number(folder.iterdir(), by)
    if len(found) < count:
        shape, _, setting = _KINDS[by]
        cures = [f"give --last {len(found)}", "train longer"] if found else []
        (other,) = _KINDS.keys() - {by}
        if len(by_number(folder.iterdir(), other)) >= count:
            cures.append(f"give --by {other}")
        cures = cures or [f"train with {setting}"]
        asked = f"its recipe averages {count} checkpoints" if recipe else f"--last {count}"
        raise UserError(
            f"{folder}: {asked}: only {counted(len(found), 'file')} {shape} found; "
            f"{'name a checkpoint' if recipe else ', or '.join(cures)}"
        )
    return [found[number] for number in sorted(found)[-count:]]


def averaged_from(path: str | Path) -> list[str] | None:
    """Return the names of the checkpoints that a checkpoint averages; None if it records none."""
    names = (open_state(path).get("extra_state") or {}).get("averaged_from")
    return [*map(str, names)] if isinstance(names, list) else None


def average_checkpoints(paths: Sequence[str | Path]) -> dict:
    """Return the average of checkpoints of one architecture. ``paths`` are in order, oldest first.

    Floating-point tensors are summed in float64 and cast back. Everything else comes from the last
    checkpoint, without optimizer state.
    """
    note_equal_weights(paths, "the average")
    sums: dict[str, torch.Tensor] = {}
    first: dict[str, tuple] = {}
    dictionaries: Record = {}
    state: dict = {}
    model: dict = {}
    for path in paths:
        state = open_state(path, finite=True)
        dictionaries = dictionaries or recorded(state)
        check_same(str(path), recorded(state), str(paths[0]), dictionaries, "do not mix models")
        model = state["model"]
        shapes = {name: tuple(value.shape) for name, value in model.items()}
        first = first or shapes
        for name in sorted(first.keys() | shapes.keys()):
            expected, shape = (side.get(name, "missing") for side in (first, shapes))
            if expected != shape:
                raise UserError(
                    f"{path}: parameter {name} is {shape}, but {expected} in {paths[0]}; do not "
                    "mix models"
                )
        for name, value in model.items():
            if name in sums:
                sums[name] += value
            elif value.is_floating_point():
                # Copy, because tied weights share storage, to which += would add twice.
                sums[name] = value.to(torch.float64, copy=True)
    for name, total in sums.items():
        model[name] = (total / len(paths)).to(model[name].dtype)
    forget_training(state)
    state["extra_state"][MADE_BY] = "average"
    state["extra_state"]["averaged_from"] = [Path(path).name for path in paths]
    return state


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha average``."""
    parser.epilog = (
        "example:\n  diverse-mha average runs/mine --last 5 --output runs/mine/averaged.pt"
    )
    parser.add_argument(
        "inputs", nargs="+", metavar="CKPT", help="checkpoint files; with --last, one folder"
    )
    parser.add_argument("--output", "-o", required=True, help="the averaged checkpoint to write")
    add_force(parser)
    parser.add_argument(
        "--last", type=int, metavar="N", help="average the newest N checkpoints of the folder CKPT"
    )
    parser.add_argument(
        "--by",
        choices=["epoch", "update"],
        help="with --last: average checkpoints saved by epoch or by update (default: epoch)",
    )


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha average``."""
    paths = [Path(name) for name in args.inputs]
    if args.last is not None:
        if len(paths) != 1:
            raise UserError(f"--last {args.last} takes one folder, not {len(paths)} names")
        paths = newest_checkpoints(paths[0], args.last, args.by or "epoch")
    elif paths[0].is_dir():
        raise UserError(f"{paths[0]} is a folder: add --last N, or name the files in it")
    elif args.by is not None:
        raise UserError(f"--by {args.by} has no effect without --last; leave it out, or add --last")
    resolved = [path.resolve() for path in paths]
    for path, target in zip(paths, resolved, strict=True):
        if resolved.count(target) > 1:
            raise UserError(f"{path}: is given twice and would be counted twice; give it once")
    check_output_file("--output", args.output)
    check_replaceable(
        "--output", args.output, is_own=written_by("average"), inputs=paths, force=args.force
    )
    write_state(average_checkpoints(paths), args.output)
    print(f"{args.output}: the average of {', '.join(path.name for path in paths)}")
    return 0
