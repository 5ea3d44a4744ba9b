"""``export --format ctranslate2``: writes a folder for CTranslate2, with a translation script.

CTranslate2's own converter (``ctranslate2.converters.FairseqConverter``) reads the checkpoint in
stock fairseq's form.
"""

import importlib.util
import json
import shutil
from pathlib import Path

import torch

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.prepared import Side, read_side
from diverse_mha.corpora.text import punctuation_of
from diverse_mha.evaluation.ctranslate2_engine import NotConvertible, convert_stock, name_languages
from diverse_mha.evaluation.head_aligner import Candidate
from diverse_mha.export import plain_text
from diverse_mha.models.stock_form import stock_state


def text_options(source: Side, target: Side, positions: tuple[int, int]) -> dict:
    """Return the contents of ``text.json``, the settings of ``plain_text.py``.

    ``positions`` holds the maximum positions of encoder and decoder, including eos.
    """
    options = source.made.tokeniser
    if "zh" in (source.moses, target.moses) and options["tokeniser"] == "moses":
        raise UserError("--format ctranslate2: Chinese text is not supported; use --format fairseq")
    return {
        **options,
        "source": source.moses,
        "target": target.moses,
        "punctuation": punctuation_of(target.moses),
        "method": source.made.method,
        "model": source.model.name,
        "longest_source": positions[0] - 1,
        "longest_target": min(200, positions[1] - 1),
    }


def head_first(parameters: dict, layer: int, head: int, heads: int) -> dict:
    """Return parameters with one encoder-decoder head moved to the front of its layer.

    CTranslate2 can only return the attention of a layer's first heads. The model's outputs stay
    equal up to rounding. ``layer`` and ``head`` are numbered from 1; the layer has ``heads`` heads.
    """
    order = [head - 1, *(other for other in range(heads) if other != head - 1)]
    moved, prefix = dict(parameters), f"decoder.layers.{layer - 1}.encoder_attn."
    for name in (name for name in parameters if name.startswith(prefix)):
        axis = int(name == f"{prefix}out_proj.weight")  # its heads are columns, not rows
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
    alignment: Candidate | None = None,
) -> None:
    """Convert a checkpoint; a translation model gets its subword model and ``translate.py``.

    Args:
        path: the checkpoint, for messages.
        state: content of the checkpoint, from ``states.grouped``.
        data: folder with the dictionaries; for a translation model, data-prep must have made it.
        output: folder to create; ``stock.pt`` is written beside it.
        quantization: type of the parameters; None: unchanged.
        alignment: head or average whose attention CTranslate2 returns; None: the average of the
            last layer.
    """
    if importlib.util.find_spec("ctranslate2") is None:
        raise UserError(
            "--format ctranslate2: needs CTranslate2; pip install ctranslate2 "
            "(or this package with [export])"
        )
    stock = stock_state(path, state, namespace=True)
    text = source = None
    args = stock["args"]
    if alignment is not None:
        layer, head, heads = alignment.layer, alignment.head, args.decoder_attention_heads
        args.alignment_layer, args.alignment_heads = layer - 1, 1 if head else heads
        if head:
            stock["model"] = head_first(stock["model"], layer, head, heads)
    if args.task == "translation":
        name_languages(args, data)
        source, target = (read_side(data, code) for code in (args.source_lang, args.target_lang))
        positions = args.max_source_positions, args.max_target_positions
        text = text_options(source, target, positions)
    try:
        convert_stock(path, stock, data, output, quantization)
    except NotConvertible as error:
        raise UserError(f"{error}; give other options, or --format fairseq") from error
    if text is not None and source is not None:
        shutil.copy(source.model, output)
        shutil.copy(plain_text.__file__, output / "translate.py")
        (output / "text.json").write_text(json.dumps(text, indent=2), encoding="utf-8")
