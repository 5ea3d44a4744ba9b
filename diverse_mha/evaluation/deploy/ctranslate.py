"""Models for CTranslate2, with what turns plain text into their tokens.

The conversion is CTranslate2's own (``ctranslate2.converters.FairseqConverter``), of the stock
form of the checkpoint.
"""

import json
import shutil
import tempfile
from argparse import Namespace
from pathlib import Path

import torch
from fairseq.data.data_utils import infer_language_pair

from diverse_mha.common.errors import UserError
from diverse_mha.common.options import flag
from diverse_mha.common.processes import ended_in_order
from diverse_mha.evaluation.checkpoints import save_checkpoint
from diverse_mha.evaluation.deploy import plain_text
from diverse_mha.evaluation.deploy.prepared_text import Side, read_side
from diverse_mha.evaluation.deploy.stock_form import stock_state
from diverse_mha.tasks.data_files import dictionaries_named

QUANTIZATIONS = (
    "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16",
    "float32",
)  # fmt: skip


def text_options(source: Side, target: Side, positions: tuple[int, int]) -> dict:
    """Return what the script beside a model (``plain_text.py``) has to know of its data.

    ``positions`` are those that the encoder and the decoder have, for subwords and an end.
    """
    options = source.made.tokeniser
    if "zh" in (source.moses, target.moses) and options["tokeniser"] == "moses":
        raise UserError("--format ctranslate2: Chinese text is not supported; use --format fairseq")
    return {
        **options,
        "source": source.moses,
        "target": target.moses,
        "method": source.made.method,
        "model": source.model.name,
        "longest_source": positions[0] - 1,
        "longest_target": min(200, positions[1] - 1),
    }


def _check_convertible(path: str, args: Namespace) -> None:
    """Raise an error for models that CTranslate2 cannot convert or load."""
    width = args.decoder_embed_dim
    # Its language models project both in and out, or neither; its translation models neither.
    projected = args.decoder_output_dim != width and (
        args.task == "translation" or args.decoder_input_dim == width
    )
    softmax = getattr(args, "adaptive_softmax_cutoff", None)
    alone = getattr(args, "no_cross_attention", False)
    for name, there, what in (
        ("adaptive_softmax_cutoff", softmax, "adaptive softmax"),
        ("no_cross_attention", alone, "decoder without attention to the encoder"),
        ("decoder_output_dim", projected, f"output other than of --decoder-embed-dim {width}"),
        ("encoder_layers", getattr(args, "encoder_layers", 1) == 0, "encoder without layers"),
        ("decoder_layers", args.decoder_layers == 0, "decoder without layers"),
    ):
        if there:
            raise UserError(
                f"{path}: its {flag(name)} {getattr(args, name)}: CTranslate2 has no {what}; use "
                "--format fairseq"
            )


def head_first(parameters: dict, layer: int, head: int, heads: int) -> dict:
    """Return parameters with a head of the attention to the source moved before the others.

    The outputs stay the same to rounding; ``layer`` and ``head`` are from 1. CTranslate2's
    alignments are those of the first heads of a layer.
    """
    order = [head - 1, *(other for other in range(heads) if other != head - 1)]
    moved, prefix = dict(parameters), f"decoder.layers.{layer - 1}.encoder_attn."
    for name in (name for name in parameters if name.startswith(prefix)):
        axis = int(name == f"{prefix}out_proj.weight")  # which takes what the others make
        if name != f"{prefix}out_proj.bias":
            parted = parameters[name].unflatten(axis, (heads, -1))
            moved[name] = parted.index_select(axis, torch.tensor(order)).flatten(axis, axis + 1)
    return moved


def convert(
    path: str,
    state: dict,
    data: str,
    output: Path,
    quantization: str | None,
    alignment: tuple[int, int] | None = None,
) -> None:
    """Convert a checkpoint, and put the subwords and a script beside a translation model.

    ``path`` is for messages, ``state`` what fairseq loads from there; ``data`` has the dictionaries
    and is, of a translation model, made by data-prep; without ``quantization``, one of
    ``QUANTIZATIONS``, parameters stay as they are; ``alignment`` is the layer and the head, from 1,
    whose attention CTranslate2 is to return, in place of the last layer's mean.
    """
    try:
        from ctranslate2.converters import FairseqConverter
    except ImportError:
        raise UserError(
            "--format ctranslate2: needs CTranslate2; pip install ctranslate2 "
            "(or this package with [export])"
        ) from None
    stock = stock_state(path, state, namespace=True)
    text = None
    args = stock["args"]
    _check_convertible(path, args)
    if alignment is not None:
        heads = args.decoder_attention_heads
        stock["model"] = head_first(stock["model"], *alignment, heads)
        args.alignment_layer, args.alignment_heads = alignment[0] - 1, 1
    if args.task == "translation":
        if not hasattr(args, "source_lang") or not hasattr(args, "target_lang"):
            args.source_lang, args.target_lang = infer_language_pair(data)
        source, target = (read_side(data, code) for code in (args.source_lang, args.target_lang))
        positions = args.max_source_positions, args.max_target_positions
        text = text_options(source, target, positions)
    output.parent.mkdir(parents=True, exist_ok=True)
    with (
        ended_in_order(),
        tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as folder,
    ):
        checkpoint, made = Path(folder, "stock.pt"), Path(folder, "model")
        save_checkpoint(stock, checkpoint)
        try:
            with dictionaries_named(data):
                FairseqConverter(str(checkpoint), str(data)).convert(
                    str(made), quantization=quantization
                )
        except (ValueError, RuntimeError, FileNotFoundError, AssertionError) as error:
            if isinstance(error, UserError):
                raise
            said = " ".join(str(error).split())[:200]
            raise UserError(f"{path}: CTranslate2 cannot convert it with {data}: {said}") from error
        if text:
            shutil.copy(source.model, made)
            shutil.copy(plain_text.__file__, made / "translate.py")
            (made / "text.json").write_text(json.dumps(text, indent=2), encoding="utf-8")
        made.rename(output)
