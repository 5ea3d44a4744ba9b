"""Averages the parameters of checkpoints: ``diverse-mha average``.

The result (Vaswani et al. 2017, section 6.1) is a fairseq checkpoint without optimizer state.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import torch

from diverse_mha.common.errors import UserError
from diverse_mha.common.places import check_file
from diverse_mha.evaluation.checkpoints import (
    forget_training,
    load_checkpoint,
    save_checkpoint,
    settings,
)

_EPOCH = re.compile(r"checkpoint(\d+)\.pt")
_UPDATE = re.compile(r"checkpoint_(\d+)_(\d+)\.pt")


def newest_checkpoints(folder: str | Path, count: int, by: str = "epoch") -> list[Path]:
    """Return the last ``count`` checkpoints in a run's ``--save-dir``, oldest first.

    ``by`` is ``"epoch"`` for ``checkpoint<N>.pt``, which must be consecutive, or ``"update"`` for
    ``checkpoint_<epoch>_<updates>.pt``.
    """
    if count < 1:
        raise UserError(f"--last {count}: must be at least 1")
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give the --save-dir of a training run")
    pattern, shape, kept = {
        "epoch": (
            _EPOCH,
            "checkpoint<epoch>.pt",
            "train without --no-epoch-checkpoints (in a recipe: "
            "checkpoint.no_epoch_checkpoints=false)",
        ),
        "update": (
            _UPDATE,
            "checkpoint_<epoch>_<updates>.pt",
            "train with --save-interval-updates N (in a recipe: "
            "checkpoint.save_interval_updates=N)",
        ),
    }[by]
    found: dict[int, Path] = {}
    for path in folder.iterdir():
        match = pattern.fullmatch(path.name)
        if match and (other := found.setdefault(int(match.groups()[-1]), path)) != path:
            raise UserError(
                f"{path}: is of the same {by} as {other.name}, so they are of two runs; list the "
                "checkpoints to average by name"
            )
    if len(found) < count:
        raise UserError(
            f"{folder}: --last {count}, but only {len(found)} files {shape} are there; {kept}"
        )
    numbers = sorted(found)[-count:]
    missing = sorted(set(range(numbers[0], numbers[-1])) - found.keys())
    if by == "epoch" and missing:
        raise UserError(
            f"{folder}: checkpoint{missing[0]}.pt is missing; list the checkpoints to average by "
            "name"
        )
    return [found[number] for number in numbers]


def average_checkpoints(paths: Sequence[str | Path]) -> dict:
    """Return the average of checkpoints of one architecture, oldest first.

    Floating-point entries are summed in float64 and cast back. All else comes from the last
    checkpoint, without the optimizer's state.
    """
    sums: dict[str, torch.Tensor] = {}
    first: tuple[dict, dict] | None = None
    for path in paths:
        state = load_checkpoint(path)
        model = state["model"]
        kind = {name: tuple(value.shape) for name, value in model.items()}, _options(state)
        first = first or kind
        _check_same(first, kind, paths[0], path)
        for name, value in model.items():
            if name in sums:
                sums[name] += value
            elif value.is_floating_point():
                sums[name] = value.to(torch.float64, copy=True)  # tied weights share theirs
    for name, total in sums.items():
        model[name] = (total / len(paths)).to(model[name].dtype)
    forget_training(state)
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
    parser.add_argument(
        "--last", type=int, metavar="N", help="average the newest N checkpoints of the folder CKPT"
    )
    parser.add_argument(
        "--by",
        choices=["epoch", "update"],
        help="with --last: take checkpoints of epochs or of updates (default: epoch)",
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
        raise UserError(f"--by {args.by} has no effect without --last N; leave it out, or add that")
    resolved = [path.resolve() for path in paths]
    for path, place in zip(paths, resolved, strict=True):
        if resolved.count(place) > 1:
            raise UserError(f"{path}: is named twice, and would count twice; name it once")
    check_file("--output", args.output)
    if Path(args.output).resolve() in resolved:
        raise UserError(f"--output {args.output}: is averaged itself; give another name")
    save_checkpoint(average_checkpoints(paths), args.output)
    print(f"{args.output}: the average of {', '.join(path.name for path in paths)}")
    return 0


def _options(state: dict) -> dict:
    """Return the options that change what a model computes but no shape."""
    return {
        name: value
        for name, value in settings(state, "model").items()
        if name.endswith(("attention_heads", "normalize_before", "activation_fn"))
        or name in ("no_scale_embedding", "no_token_positional_embeddings")
        or name.startswith(("aggregation", "routing_", "logits", "cascade"))
    }


def _check_same(
    there: tuple[dict, dict], here: tuple[dict, dict], first: str | Path, path: str | Path
) -> None:
    """Refuse a checkpoint whose parameters or options are not those of the first one."""
    for name in sorted(there[0].keys() ^ here[0].keys()):
        what = f"of {first} is missing" if name in there[0] else f"is not in {first}"
        raise UserError(f"{path}: parameter {name} {what}; do not mix models")
    for kind, ours, others in zip(("parameter", "its option"), here, there, strict=True):
        for name in sorted(ours.keys() & others.keys()):
            if ours[name] != others[name]:
                raise UserError(
                    f"{path}: {kind} {name} is {ours[name]}, in {first} {others[name]}; do not "
                    "mix models"
                )
