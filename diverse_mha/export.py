"""Checkpoints for others to load: ``diverse-mha export``."""

import argparse
from pathlib import Path

from diverse_mha.averaging import load_checkpoint, save_checkpoint
from diverse_mha.errors import UserError
from diverse_mha.places import check_file

FORMATS = {
    "fairseq": "a checkpoint that stock fairseq's commands load without --user-dir",
    "fairseq-args": "the same with its options as argparse.Namespace, for older "
    "fairseq and converters; torch from 2.6 on wants TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 for it",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha export``."""
    parser.add_argument("checkpoint", help="the model; its aggregation linear, its cascade none")
    parser.add_argument("output", metavar="OUT", help="the file to write")
    parser.add_argument(
        "--format",
        required=True,
        choices=FORMATS,
        help="; ".join(f"{name}: {what}" for name, what in FORMATS.items()),
    )


def load_state(path: str) -> dict:
    """Read a checkpoint with its configuration.

    Raises:
        UserError: if it is missing, broken, or holds no model with its options.
    """
    from fairseq import checkpoint_utils

    load_checkpoint(path, mmap=True)
    state = checkpoint_utils.load_checkpoint_to_cpu(path)
    cfg = state.get("cfg")
    if cfg is None or cfg.get("model") is None or cfg.get("task") is None:
        raise UserError(f"{path}: holds no options; give one that fairseq-train wrote")
    return state


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha export``."""
    check_file("OUT", args.output)
    if Path(args.output).resolve() == Path(args.checkpoint).resolve():
        raise UserError(f"OUT {args.output}: is the checkpoint itself; give another name")
    from diverse_mha.deploy.stock_form import stock_state

    state = load_state(args.checkpoint)
    namespace = args.format == "fairseq-args"
    save_checkpoint(stock_state(args.checkpoint, state, namespace=namespace), args.output)
    print(f"{args.output}: {args.checkpoint} for stock fairseq")
    return 0
