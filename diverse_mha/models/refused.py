"""Options of fairseq's models that ours do not support.

Models check them before they build anything. Every check takes a namespace with fairseq's flat
option names.
"""

from fairseq.options import eval_str_list

from diverse_mha.common.errors import Option, UserError

# Stock options that our forward passes do not implement; empty, 0 or False switches each off.
_UNSUPPORTED = {
    "quantisation noise is": "quant_noise_pq quant_noise_scalar",
    "merged cross and self attention is": "cross_self_attention",
    "xFormers attention is": "encoder_xformers_att_config decoder_xformers_att_config",
    "one table for two dictionaries is": "merge_src_tgt_embed",
    "a part of the layers of a checkpoint is": "encoder_layers_to_keep decoder_layers_to_keep",
    "BASE layers are": "base_layers",
    "NormFormer scaling is": "scale_attn scale_fc scale_heads scale_resids",
    "a model of characters is": "character_embeddings",
}
# Options with which the output projection of a translation model shares the input embeddings.
_TIED = ("share_all_embeddings", "share_decoder_input_output_embed")


def check_model_options(args) -> None:
    """Check the options of an encoder-decoder or decoder-only model."""
    for what, names in _UNSUPPORTED.items():
        for name in names.split():
            if value := getattr(args, name, None):
                why = f": {what} not supported by diverse-mha; leave it out"
                raise UserError(Option(name, value), why)
    if getattr(args, "no_decoder_final_norm", False) and not args.decoder_normalize_before:
        raise UserError(
            Option("no_decoder_final_norm", True), " has no effect without ",
            Option("decoder_normalize_before", True), "; give both, or leave it out",
        )  # fmt: skip
    for side in ("encoder", "decoder"):
        width = getattr(args, f"{side}_embed_dim", None)
        heads = getattr(args, f"{side}_attention_heads", None)
        if width is not None and heads is not None and (heads < 1 or width % heads):
            raise UserError(
                Option(f"{side}_attention_heads", heads), " does not divide ",
                Option(f"{side}_embed_dim", width), "; give a divisor",
            )  # fmt: skip


def check_embeddings(args, joined: bool) -> None:
    """Check the options of a translation's embeddings."""
    if args.share_all_embeddings and not joined:
        raise UserError(
            Option("share_all_embeddings", True),
            " needs one dictionary for both languages; binarise the data with --joined-dictionary, "
            "or leave it out",
        )
    for name in ("adaptive_input", "tie_adaptive_weights", "char_inputs"):
        if getattr(args, name, False):
            raise UserError(Option(name, True), " has no effect on translation; leave it out")
    width = args.decoder_embed_dim
    why: dict[str, tuple[str | Option, ...]] = {
        "decoder_input_dim": ("is for language models, and has no effect on translation",)
    }
    for name in _TIED:
        if getattr(args, name, False):
            why["decoder_output_dim"] = "does not go with ", Option(name, True)
    for name, reason in why.items():
        value = getattr(args, name, None)
        if value not in (None, width):
            raise UserError(
                Option(name, value), ": ", *reason, "; leave it out, which sets it to ",
                Option("decoder_embed_dim", width),
            )  # fmt: skip


def check_cutoffs(args, words: int) -> None:
    """Check the cutoffs of an adaptive input and softmax."""
    for name in ("adaptive_input_cutoff", "adaptive_softmax_cutoff"):
        value = getattr(args, name, None)
        if value is None:
            continue
        try:
            cutoffs = eval_str_list(value, type=int)
        except (NameError, SyntaxError, TypeError, ValueError):
            cutoffs = []
        if not cutoffs or cutoffs != sorted(set(cutoffs)) or cutoffs[0] < 1 or cutoffs[-1] > words:
            raise UserError(
                Option(name, value),
                f": give increasing numbers from 1 to {words}, the size of the dictionary, "
                "separated by commas",
            )
