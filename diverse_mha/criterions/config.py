"""Options of the criterions."""

from dataclasses import Field, fields

from fairseq.dataclass import FairseqDataclass

from diverse_mha.common.typed import with_options
from diverse_mha.criterions.schedule import Schedule
from diverse_mha.methods.term import TERMS


def diversity_options() -> list[Field]:
    """Return the options of every criterion: those of the terms, and of all terms together."""
    return [*TERMS.options(), *fields(Schedule)]


DiversityConfig = with_options(FairseqDataclass, diversity_options(), "DiversityConfig")
