"""Refuses options of fairseq's search that need alignments by word.

``--replace-unk`` ends in an error at the first unknown word, ``--print-alignment soft`` in a
ValueError of fairseq-interactive (fairseq-fixed 0.12.3.1).
"""

from fairseq import options

from diverse_mha.common.errors import OptionError
from diverse_mha.fairseq_fixes.replacing import in_place_of


@in_place_of(options, "parse_args_and_arch")
def refuse_without_alignments(parse, *args, **kwargs):
    """Refuse ``--replace-unk``, and soft alignments of fairseq-interactive."""
    parsed = parse(*args, **kwargs)
    given = parsed[0] if isinstance(parsed, tuple) else parsed
    if getattr(given, "replace_unk", None) is not None:
        raise OptionError(
            "--replace-unk: fairseq cannot copy words, as its search has no alignment by word; "
            "leave it out"
        )
    if getattr(given, "print_alignment", None) == "soft" and hasattr(given, "buffer_size"):
        raise OptionError(
            "--print-alignment soft: fairseq-interactive prints hard alignments alone; give hard, "
            "or use fairseq-generate"
        )
    return parsed
