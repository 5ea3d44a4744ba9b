"""``export --format transformers``: writes a folder for Hugging Face transformers.

FSMT is the class of transformers for fairseq's Transformer. Parameters keep fairseq's names, with
the prefix ``model.``.
"""

from argparse import Namespace
from pathlib import Path

import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import infer_language_pair

from diverse_mha.common.errors import UserError
from diverse_mha.common.options import flag
from diverse_mha.corpora.prepared import Side, read_side
from diverse_mha.export.fast_tokenizer import write_tokenizer, write_vocabulary
from diverse_mha.models.stock_form import stock_state

# Option -> the only value that FSMT supports.
_ONLY = {
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "layernorm_embedding": False,
    "encoder_learned_pos": False,
    "decoder_learned_pos": False,
    "no_token_positional_embeddings": False,
    "no_cross_attention": False,
    "adaptive_softmax_cutoff": None,
}
_WIDTHS = ("decoder_embed_dim", "decoder_input_dim", "decoder_output_dim")
_ACTIVATIONS = ("relu", "gelu", "tanh", "linear", "gelu_new", "silu")
_NOT_PARAMETERS = ("version", "_float_tensor")  # last part of the names of buffers


def _check(path: str, args: Namespace) -> None:
    if args.task != "translation":
        raise UserError(f"{path}: is a language model; give a translation model, or another format")
    given = {name: getattr(args, name, None) or value for name, value in _ONLY.items()}
    differing = [name for name, value in _ONLY.items() if given[name] != value]
    differing += [name for name in _WIDTHS if getattr(args, name) != args.encoder_embed_dim]
    differing += [] if args.activation_fn in _ACTIVATIONS else ["activation_fn"]
    if differing:
        name = differing[0]
        raise UserError(
            f"{path}: {flag(name)} {getattr(args, name)}: not supported by FSMT of transformers; "
            "use --format ctranslate2 or fairseq"
        )


def _config(args: Namespace, sizes: tuple[int, int]) -> dict:
    config = {
        "langs": [args.source_lang, args.target_lang],
        "src_vocab_size": sizes[0],
        "tgt_vocab_size": sizes[1],
        "activation_function": args.activation_fn,
        "d_model": args.encoder_embed_dim,
        "max_position_embeddings": max(args.max_source_positions, args.max_target_positions),
        "attention_dropout": args.attention_dropout,
        "activation_dropout": args.activation_dropout,
        "dropout": args.dropout,
        "scale_embedding": not args.no_scale_embedding,
        "tie_word_embeddings": args.share_all_embeddings,
        "is_encoder_decoder": True,
    }
    for side in ("encoder", "decoder"):
        config[f"{side}_ffn_dim"] = getattr(args, f"{side}_ffn_embed_dim")
        config[f"{side}_layers"] = getattr(args, f"{side}_layers")
        config[f"{side}_attention_heads"] = getattr(args, f"{side}_attention_heads")
    return config


def build(path: str, args: Namespace, parameters: dict, sizes: tuple[int, int]):
    """Build ``FSMTForConditionalGeneration`` with a stock model's parameters."""
    try:
        from transformers import FSMTConfig, FSMTForConditionalGeneration
    except ImportError:
        raise UserError(
            "--format transformers: needs transformers; pip install transformers "
            "(or this package with [hub])"
        ) from None
    model = FSMTForConditionalGeneration(FSMTConfig(**_config(args, sizes)))
    state = {
        f"model.{name}": value.float()
        for name, value in parameters.items()
        if name.rpartition(".")[2] not in _NOT_PARAMETERS
    }
    missing, unknown = model.load_state_dict(state, strict=False)
    missing = [name for name in missing if not name.endswith("embed_positions.weight")]
    if missing or unknown:
        raise UserError(f"{path}: parameter {(missing + unknown)[0]} does not fit FSMT's model")
    for side in (model.model.encoder, model.model.decoder):
        positions = side.embed_positions
        count, width = positions.weight.shape
        positions.make_weight(count, width, positions.padding_idx)
    model.generation_config.update(
        num_beams=5, max_length=200, early_stopping=True, length_penalty=1.0
    )
    return model.eval()


def convert(path: str, state: dict, data: str, output: Path) -> str:
    """Write a folder for transformers, with a tokenizer or the vocabulary files.

    Args:
        path: the checkpoint, for messages.
        state: content of the checkpoint, from ``states.grouped``.
        data: folder with the dictionaries.
        output: folder to create.

    Returns:
        A description of the folder for the user.
    """
    stock = stock_state(path, state, namespace=True)
    args = stock["args"]
    _check(path, args)
    if not getattr(args, "source_lang", None) or not getattr(args, "target_lang", None):
        args.source_lang, args.target_lang = infer_language_pair(data)
    languages: tuple[str, str] = vars(args)["source_lang"], vars(args)["target_lang"]
    source, target = (Dictionary.load(str(Path(data, f"dict.{code}.txt"))) for code in languages)
    with torch.no_grad():
        model = build(path, args, stock["model"], (len(source), len(target)))
    model.save_pretrained(output)
    sides: list[Side] = []
    try:
        sides = [read_side(data, code) for code in languages]
        summary = "with its tokenizer" + write_tokenizer(
            output, (sides[0], sides[1]), languages, (source, target)
        )
    except UserError as error:
        files = ", ".join(write_vocabulary(output, data, languages, sides))
        summary = f"without a tokenizer: {error}; its vocabulary is in {files}"
    return f"for transformers, {summary}"
