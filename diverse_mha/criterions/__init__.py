"""The criterions; importing this registers them with fairseq."""

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY

from diverse_mha.common.typed import register_options, with_options
from diverse_mha.criterions import sentence_classification, translation_and_lm  # noqa
from diverse_mha.criterions.diversity import DiversityMixin
from diverse_mha.fairseq_fixes import install  # noqa: F401  patches fairseq
from diverse_mha.methods.diversity import diversity_options
from diverse_mha.methods.term import TERMS


def _grow() -> None:
    """Add the options of a newly registered term to every criterion with terms."""
    for name, cls in CRITERION_REGISTRY.items():
        if issubclass(cls, DiversityMixin):
            config = with_options(CRITERION_DATACLASS_REGISTRY[name], diversity_options())
            register_options("criterion", CRITERION_DATACLASS_REGISTRY, name, cls, config)


TERMS.on_change(_grow)
