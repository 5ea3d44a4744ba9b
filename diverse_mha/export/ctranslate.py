"""Models for CTranslate2, with what turns plain text into their tokens.

The conversion is CTranslate2's own (``ctranslate2.converters.FairseqConverter``), of the stock
form of the checkpoint.
"""

import json
import shutil
from pathlib import Path

import torch
from fairseq.data.data_utils import infer_language_pair

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.prepared import Side, read_side
from diverse_mha.evaluation.checkpoints import save_checkpoint
from diverse_mha.export import plain_text
from diverse_mha.export.fairseq import stock_state
from diverse_mha.tasks.data_files import dictionaries_named


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

    Args:
        path: the checkpoint, for messages.
        state: what fairseq loads from there.
        data: has the dictionaries; of a translation model, made by data-prep.
        output: the folder to make; ``stock.pt`` stays beside it.
        quantization: type of the parameters; None leaves them as they are.
        alignment: layer and head, from 1, whose attention CTranslate2 is to return, in place of the
            last layer's mean.
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
    checkpoint = output.with_name("stock.pt")
    save_checkpoint(stock, checkpoint)
    try:
        with dictionaries_named(data):
            converter = FairseqConverter(str(checkpoint), str(data))
            converter.convert(str(output), quantization=quantization)
    except (UserError, OSError):
        raise
    except Exception as error:  # of a part that it does not have, as adaptive softmax
        said = " ".join(str(error).split())[:200]
        raise UserError(
            f"{path}: CTranslate2 cannot convert it ({said}); give other options, or "
            "--format fairseq"
        ) from error
    if text:
        shutil.copy(source.model, output)
        shutil.copy(plain_text.__file__, output / "translate.py")
        (output / "text.json").write_text(json.dumps(text, indent=2), encoding="utf-8")
