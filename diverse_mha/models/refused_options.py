"""Refuses options that a model cannot honour, before anything is built.

Every check takes a namespace with fairseq's flat option names.
"""

from fairseq.options import eval_str_list

from diverse_mha.common.errors import OptionError
from diverse_mha.common.options import flag

# Stock options that our forward passes do not follow, all off if empty, 0 or False.
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
# Options by which a translation's output shares the table of its input.
_TIED = ("share_all_embeddings", "share_decoder_input_output_embed")


def check_model_options(args) -> None:
    """Check the options of an encoder-decoder or decoder-only model."""
    for what, names in _UNSUPPORTED.items():
        for name in names.split():
            if value := getattr(args, name, None):
                raise OptionError(
                    f"{flag(name)} {value}: {what} not supported by diverse-mha; leave it out"
                )
    if getattr(args, "no_decoder_final_norm", False) and not args.decoder_normalize_before:
        raise OptionError(
            "--no-decoder-final-norm has no effect without --decoder-normalize-before; "
            "leave it out, or add that"
        )
    for side in ("encoder", "decoder"):
        width = getattr(args, f"{side}_embed_dim", None)
        heads = getattr(args, f"{side}_attention_heads", None)
        if None not in (width, heads) and (heads < 1 or width % heads):
            raise OptionError(
                f"--{side}-attention-heads {heads} does not divide --{side}-embed-dim {width}; "
                "give a divisor"
            )


def check_embeddings(args, joined: bool) -> None:
    """Check the options of a translation's embeddings."""
    if args.share_all_embeddings and not joined:
        raise OptionError(
            "--share-all-embeddings needs one dictionary for both languages; binarise the data "
            "with --joined-dictionary, or leave it out"
        )
    for name in ("adaptive_input", "tie_adaptive_weights", "char_inputs"):
        if getattr(args, name, False):
            raise OptionError(f"{flag(name)} has no effect on translation; leave it out")
    width = args.decoder_embed_dim
    why = {"decoder_input_dim": "is of language models, and has no effect on translation"}
    for name in _TIED:
        if getattr(args, name, False):
            why["decoder_output_dim"] = f"does not go with {flag(name)}"
    for name, reason in why.items():
        value = getattr(args, name, None)
        if value not in (None, width):
            raise OptionError(
                f"{flag(name)} {value}: {reason}; leave it out, and the embeddings are as wide as "
                f"--decoder-embed-dim {width}"
            )


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
            raise OptionError(
                f"{flag(name)} {value}: give rising numbers from 1 to {words}, the size of the "
                "dictionary, separated by commas"
            )
