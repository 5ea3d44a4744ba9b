"""``diverse-mha export``: writes a checkpoint for fairseq, CTranslate2 or transformers."""

import argparse
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import (
    atomic_folder,
    check_output_file,
    check_output_folder,
    write_json,
)
from diverse_mha.common.plugins import add_user_dir, import_plugin
from diverse_mha.common.processes import ended_in_order
from diverse_mha.common.progress import hide_log
from diverse_mha.evaluation.models import check_data
from diverse_mha.evaluation.outputs import MADE_BY, add_force, check_replaceable, json_with
from diverse_mha.evaluation.states import grouped, open_state, write_state, written_by

FORMATS = {
    "fairseq": "a checkpoint for stock fairseq",
    "ctranslate2": "a folder for CTranslate2, with subwords and a script that translates",
    "transformers": "a folder for Hugging Face transformers (FSMT), with a tokenizer",
}

MADE_FILE = "export.json"  # file that marks an exported folder
#: Option -> formats that accept it.
_OPTIONS = {
    "data": ("ctranslate2", "transformers"),
    "quantization": ("ctranslate2",),
    "alignment_head": ("ctranslate2",),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha export``."""
    parser.epilog = (
        "example:\n  diverse-mha export runs/mine/checkpoint_best.pt stock.pt --format fairseq"
    )
    text = "the model; refused if stock fairseq cannot compute one of its methods, such as routing"
    parser.add_argument("checkpoint", help=text)
    parser.add_argument("output", metavar="OUT", help="the file or folder to write")
    parser.add_argument(
        "--format",
        required=True,
        choices=FORMATS,
        help="; ".join(f"{name}: {what}" for name, what in FORMATS.items()),
    )
    add_force(parser)
    add_user_dir(parser)
    parser.add_argument(
        "--data",
        metavar="DATA",
        help="ctranslate2, transformers: the model's data (default: as in the checkpoint)",
    )
    parser.add_argument(
        "--quantization",
        metavar="TYPE",
        help="ctranslate2: type of the parameters, such as int8 or float16",
    )
    parser.add_argument(
        "--alignment-head",
        metavar="LAYER.HEAD",
        help="ctranslate2: the head whose attention is returned, such as 2.4 or 2.average; auto: "
        "the head that align chooses on valid (default: the average of the last layer)",
    )


def written_folder(folder: Path) -> bool:
    """Return True for a folder written by this command."""
    return json_with(MADE_BY, "checkpoint")(folder / MADE_FILE)


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha export``."""
    output = Path(args.output)
    if args.format in _OPTIONS["data"] and output.is_dir() and not written_folder(output):
        raise UserError(f"OUT {output}: already exists; give another name, or remove it")
    check_replaceable(
        "OUT", output, inputs=[args.checkpoint], force=args.force,
        is_own=written_folder if output.is_dir() else written_by("export"),
    )  # fmt: skip
    import_plugin(args.user_dir)
    for option, formats in _OPTIONS.items():
        if getattr(args, option) is not None and args.format not in formats:
            option = option.replace("_", "-")
            raise UserError(f"--{option} has no effect with --format {args.format}; leave it out")
    if args.format in _OPTIONS["data"]:
        return _convert(args, output)
    check_output_file("OUT", output)
    from diverse_mha.models.stock_form import stock_state

    state = grouped(args.checkpoint, open_state(args.checkpoint))
    stock = stock_state(args.checkpoint, state)
    stock["extra_state"] = (stock.get("extra_state") or {}) | {MADE_BY: "export"}
    write_state(stock, output)
    print(f"{output}: {args.checkpoint} for stock fairseq{_note(state)}")
    return 0


def _convert(args: argparse.Namespace, output: Path) -> int:
    from diverse_mha.export import transformers
    from diverse_mha.export.ctranslate import convert

    check_output_folder("OUT", output)
    state = grouped(args.checkpoint, open_state(args.checkpoint))
    data = args.data or str(state["cfg"].task.data)
    if not Path(data).is_dir():
        raise UserError(f"{data}: no such data folder; give --data DATA")
    check_data(args.checkpoint, state, data)
    alignment, summary = None, "for CTranslate2"
    if args.alignment_head is not None:
        from diverse_mha.evaluation.aligner import Aligner
        from diverse_mha.evaluation.models import open_models

        hide_log()
        aligner = Aligner(open_models(args.checkpoint, data, cpu=True, heads=True), data)
        # Not shifted: CTranslate2 returns the weights of the step that predicts a word.
        row = aligner.choose("--alignment-head", args.alignment_head, shifted=False)
        alignment = aligner.candidates[row]
        summary += f", aligning by {alignment.describe()}"
    output.parent.mkdir(parents=True, exist_ok=True)
    with ended_in_order(), atomic_folder(output) as made:
        if args.format == "transformers":
            summary = transformers.convert(args.checkpoint, state, data, made)
        else:
            convert(args.checkpoint, state, data, made, args.quantization, alignment)
        write_json(made / MADE_FILE, {MADE_BY: "export", "checkpoint": args.checkpoint})
    print(f"{output}: {args.checkpoint} {summary}{_note(state)}")
    return 0


def _note(state: dict) -> str:
    """Return a note that pruned heads are exported as zeros, or an empty string.

    In all formats, every layer needs the same number of heads.
    """
    from diverse_mha.models.stock_form import pruned_heads

    return "; its pruned heads are exported as zeros" if pruned_heads(state["cfg"]) else ""
