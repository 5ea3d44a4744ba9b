"""Checkpoints of earlier versions of this package, read as what they are."""

_FAMILIES = tuple(f"transformer_lm_{family}" for family in ("disagree", "routing", "coda"))
_FINAL_NORM = "decoder.layer_norm.weight"


def mend_language_model(state: dict) -> None:
    """Correct, in a loaded checkpoint, a language model from before its norm could be chosen.

    Such models normalise before their blocks whatever ``decoder_normalize_before`` in the
    checkpoint says. They are told by the layer norm after the last block, which a model that
    normalises after has not, or by the option that leaves it out, which such a model refuses.
    """
    model = (state.get("cfg") or {}).get("model")
    if not str(getattr(model, "_name", None)).startswith(_FAMILIES):
        return
    if not model.decoder_normalize_before:
        final_norm = _FINAL_NORM in (state.get("model") or {})
        model.decoder_normalize_before = final_norm or model.no_decoder_final_norm
