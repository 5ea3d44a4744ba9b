"""Models for CTranslate2, with what turns plain text into their tokens.

The conversion is CTranslate2's own (``ctranslate2.converters.FairseqConverter``), of the stock
form of the checkpoint.
"""

import shutil
import tempfile
from argparse import Namespace
from pathlib import Path

import torch
from fairseq.data.data_utils import infer_language_pair

from diverse_mha.common.errors import UserError
from diverse_mha.common.options import flag
from diverse_mha.common.processes import ended_in_order
from diverse_mha.corpora import letters
from diverse_mha.evaluation.checkpoints import save_checkpoint
from diverse_mha.evaluation.deploy.prepared_text import Side, read_side
from diverse_mha.evaluation.deploy.stock_form import stock_state
from diverse_mha.tasks.data_files import dictionaries_named

QUANTIZATIONS = (
    "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16",
    "float32",
)  # fmt: skip

# The script that goes with a translation model. It needs nothing of this package but the file
# letters.py, which goes with it.
_SCRIPT = '''\
"""python translate.py < text > translation; pip install ctranslate2 sacremoses {package}."""
import re, sys
from pathlib import Path
import ctranslate2, letters, sacremoses, {module}

here = Path(__file__).parent
{segmenter}
normalise = sacremoses.MosesPunctNormalizer({source!r}).normalize
tokenise, detokenise = {tokenise}, {detokenise}
lines = [line.rstrip("\\r\\n") for line in open(0, encoding="utf-8-sig", newline="\\n")]
lines = [letters.normal_form(line, {form!r}) for line in lines]
tokens = [tokenise({prepared}) for line in lines]
words = [segment(line{lower}).split() for line in tokens]
for n, line in enumerate(words, 1):
    if len(line) > {limit}:
        sys.exit(f"line {{n}}: {{len(line)}} subwords, at most {limit}; split it")
found = ctranslate2.Translator(str(here)).translate_batch(
    words, beam_size=5, max_batch_size=4000, batch_type="tokens", max_input_length=0, max_decoding_length={longest}
)
for source, best in zip(words, found):
    text = {joined}
    print(detokenise(text.strip()) if source else "")
'''  # noqa: E501
_SEGMENTERS = {
    "bpe": (
        "subword-nmt",
        "subword_nmt.apply_bpe as bpe",
        "codes = open(here / {model!r}, encoding='utf-8')\n"
        "segment = bpe.BPE(codes, vocab={vocabulary}).process_line",
        '(" ".join(best.hypotheses[0]) + " ").replace("@@ ", "")',
    ),
    "sentencepiece": (
        "sentencepiece",
        "sentencepiece",
        "pieces = sentencepiece.SentencePieceProcessor(model_file=str(here / {model!r}))\n"
        "segment = lambda line: ' '.join(pieces.encode(line, out_type=str))",
        '"".join(best.hypotheses[0]).replace("\\u2581", " ")',
    ),
}


def translation_script(source: Side, target: Side, positions: tuple[int, int]) -> str:
    """Write the script that translates plain text as the data was prepared.

    ``positions`` are those that the encoder and the decoder have, for subwords and an end.
    """
    options, segmenter = source.tokeniser, source.segmenter
    raw = options["tokeniser"] == "none"
    if source.moses == "zh" and not raw:
        raise UserError("--format ctranslate2: Chinese source text is not supported; use fairseq")
    package, module, build, joined = _SEGMENTERS[segmenter["method"]]
    vocabulary, threshold = segmenter["vocabulary"].name, segmenter["threshold"]
    allowed = f"bpe.read_vocabulary(open(here / {vocabulary!r}, encoding='utf-8'), {threshold})"
    prepared = "line"
    if options["straight_apostrophes"]:
        prepared = "line.replace('\\u2019', \"'\")"
    if options["normalise"] or raw:
        prepared = rf're.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", {prepared})'
    if options["normalise"]:
        prepared = f"normalise({prepared})"
    if not raw:
        prepared += f", aggressive_dash_splits={options['aggressive']}"
    return _SCRIPT.format(
        package=package,
        module=module,
        segmenter=build.format(
            model=segmenter["model"].name, vocabulary=allowed if threshold else None
        ),
        source=source.moses,
        tokenise='lambda line: " ".join(line.split())'
        if raw
        else f"letters.make_tokeniser({source.moses!r}, {options['whole_letters']})",
        detokenise="str"
        if target.tokeniser["tokeniser"] == "none"
        else f"letters.make_detokeniser({target.moses!r})",
        form=options["normal_form"],
        prepared=prepared,
        lower=".lower()" if options["lowercase"] else "",
        joined=joined,
        limit=positions[0] - 1,
        longest=min(200, positions[1] - 1),
    )


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
    files, script = [], None
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
        script = translation_script(source, target, positions)
        files = [source.segmenter["model"], Path(letters.__file__)]
        files += [source.segmenter["vocabulary"]] if source.segmenter["threshold"] else []
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
        for file in files:
            shutil.copy(file, made)
        if script:
            (made / "translate.py").write_text(script, encoding="utf-8")
        made.rename(output)
