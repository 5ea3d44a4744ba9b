"""Adds diversity terms to fairseq's criterions: their options, schedule, sum and logged values."""

import math
from collections.abc import Collection
from dataclasses import Field, astuple, dataclass, fields
from typing import NamedTuple

from fairseq.criterions.adaptive_loss import AdaptiveLoss
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from diverse_mha.attention import HeadStates, Wanted
from diverse_mha.common.errors import UserError
from diverse_mha.common.options import option, read_options, refuse_idle
from diverse_mha.common.ranges import ANY_COUNT
from diverse_mha.common.typed import with_options
from diverse_mha.methods.term import TERMS, Term, total


@dataclass
class Schedule:
    """Options of the schedule, and its factor on the weights of all terms.

    By the number of updates done, n; with s = start, w = warm-up and e = end::

        0                     n < s
        (n - s + 1) / w       s <= n < s + w
        1                     from there on, without an end
        (e - n) / (e - s - w) from there on, with one; 0 from n = e on
    """

    diversity_start: int = option(
        0,
        "update at which the terms start; before it they are not computed in training",
        legal=ANY_COUNT,
    )
    diversity_warmup_updates: int = option(
        0,
        "number of updates, from --diversity-start, over which the weights rise to their values",
        legal=ANY_COUNT,
    )
    diversity_end: int = option(
        0,
        "update at which the weights reach 0, after a linear fall from the end of the warm-up; 0: "
        "never",
        legal=ANY_COUNT,
    )

    @classmethod
    def from_config(cls, cfg) -> "Schedule":
        """Read the schedule from the options of ``DiversityConfig``."""
        schedule = read_options(cls, cfg)
        start, warmup, end = astuple(schedule)
        if end and end <= start + warmup:
            raise UserError(
                f"--diversity-end {end}: must be above --diversity-start {start} plus "
                f"--diversity-warmup-updates {warmup}"
            )
        return schedule

    def __bool__(self) -> bool:
        """Return False if the factor is always 1."""
        return any(astuple(self))

    def factor(self, num_updates: int) -> float:
        """Return the factor, in [0, 1], for the update that follows ``num_updates`` others."""
        start, warmup, end = astuple(self)
        if num_updates < start:
            return 0.0
        if num_updates < start + warmup:
            return (num_updates - start + 1) / warmup
        if not end:
            return 1.0
        return max(0.0, (end - num_updates) / (end - start - warmup))


class Measured(NamedTuple):
    """One value of a term in one batch.

    Attributes:
        value: the mean over the layers of a component, summed over components, not weighed; 0 if
            layer drop left no layer.
        loss: what it adds to the mean loss.
    """

    value: Tensor | float
    loss: Tensor | float


class DiversityTerms:
    """The terms of a loss, in any combination."""

    def __init__(self, terms: list[Term], schedule: Schedule):
        self.terms, self.schedule = terms, schedule

    @classmethod
    def from_config(cls, cfg) -> "DiversityTerms":
        """Read the terms from the options of a criterion, a ``DiversityConfig``."""
        read = [method.from_config(cfg) for method in TERMS]
        terms = [term for term in read if term is not None]
        if not any(term.weight for term in terms):
            refuse_idle(cfg, fields(Schedule), "without a term of a weight above 0; name one")
        return cls(terms, Schedule.from_config(cfg))

    def factor(self, model) -> float:
        """Return the schedule's factor on all weights in a training step."""
        return self.schedule.factor(model.num_updates) if self.schedule else 1.0

    def check_components(self, heads: dict[str, int]) -> None:
        """Refuse components that a model lacks, or whose single head has nothing to compare."""
        for term in self.terms:
            if not heads:
                raise UserError(f"{term.option}: the model has no layers with heads; add some")
            for name in term.components or heads:
                if name not in heads:
                    raise UserError(
                        f"{term.on_option} {','.join(term.components)}: the model has no {name!r} "
                        f"attention; choose from {', '.join(heads)}"
                    )
                if term.compares and heads[name] == 1:
                    side = "encoder" if name == "encoder" else "decoder"
                    raise UserError(
                        f"{term.option}: heads are compared with each other, and the model's "
                        f"{name} attention has one; give --{side}-attention-heads 2 or more, or "
                        "other components"
                    )

    @property
    def options(self) -> str:
        """The options that switched terms on, for messages."""
        return " and ".join(term.option for term in self.terms)

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the head states that the terms need; empty if no term is on."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term.wanted))

    def wanted_of(self, components: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the names of needed head states by component; others are not asked for any."""
        asked = {
            component: [
                name
                for term in self.terms
                if component in (term.components or components)
                for name in term.wanted
            ]
            for component in components
        }
        return {c: tuple(dict.fromkeys(names)) for c, names in asked.items() if names}

    def measure(
        self,
        head_states: dict[str, list[HeadStates]],
        sample_size: float,
        training: bool = False,
    ) -> dict[str, Measured]:
        """Compute every active term.

        Args:
            head_states: records per component, as the model returns them.
            sample_size: what the loss of the batch is divided by, such as its target tokens.
            training: whether samples may be drawn at random.

        Returns:
            Values by logged name, such as ``disagreement_output``.
        """
        return {
            name: Measured(
                sum((total(layers) / len(layers) for layers in values.values()), start=0.0),
                term.loss(values, sample_size),
            )
            for term in self.terms
            for name, values in term.values(head_states, training).items()
        }


def diversity_options() -> list[Field]:
    """Return the options of every criterion: those of the terms, and of all terms together."""
    return [*TERMS.options(), *fields(Schedule)]


DiversityConfig = with_options(FairseqDataclass, diversity_options(), "DiversityConfig")


# Prefixes in fairseq's logging output of terms, summed over workers, and of their batches' sample
# sizes.
_PREFIX, _SIZE = "term/", "term_size/"
_DIGITS = 10  # a term may be far below 1


class Recorder:
    """Stands in for the model in a criterion's forward pass and keeps the head states.

    fairseq's criterions call ``model(**sample["net_input"])`` themselves; this adds the request for
    states to that call.

    Args:
        model: the model, or what wraps it.
        wanted: names of ``HeadStates``, by component.
        output_weight: (V, C), if the loss does the output projection; the model then returns
            features.
    """

    def __init__(self, model, wanted: Wanted, output_weight: Tensor | None = None):
        self._model = model
        self._wanted = wanted
        self.output_weight = output_weight
        self.head_states = {}

    def __call__(self, **net_input):
        """Return what the model returns."""
        if self._wanted:
            net_input["return_head_states"] = self._wanted
        if self.output_weight is not None:
            net_input["features_only"] = True
        net_output = self._model(**net_input)
        self.head_states = net_output[1].get("head_states", {})
        return net_output

    def __getattr__(self, name):
        return getattr(self._model, name)


class DiversityMixin:
    """Adds diversity terms to a fairseq criterion; comes before it among the bases.

    The loss becomes token loss + sample_size * sum of weight * term. fairseq divides gradients by
    sample_size, so training minimises mean token loss + weight * term for any batch size, unless a
    term's normalisation differs. With ``reduce=False``, terms are logged and not added.

    The logged ``loss`` is the token loss alone, so that losses with and without terms compare.
    Every term is logged beside it and, in training, ``diversity_loss``, what the terms add (in
    bits).
    """

    diversity: DiversityTerms

    @property
    def method_options(self) -> tuple[str, ...]:
        """Options that a run keeps from its first start to its last; a plugin's too."""
        return tuple(f.name for f in diversity_options())

    @classmethod
    def build_criterion(cls, cfg, task):
        """Build fairseq's criterion, and the terms from the options of ``DiversityConfig``."""
        terms = DiversityTerms.from_config(cfg)
        criterion = super().build_criterion(cfg, task)
        criterion.diversity = terms
        return criterion

    def check_model(self, model) -> None:
        """Refuse a model that cannot give the terms what they need."""
        softmax = getattr(getattr(model, "decoder", None), "adaptive_softmax", None)
        if softmax is not None and not isinstance(self, AdaptiveLoss):
            raise UserError(
                "--adaptive-softmax-cutoff: goes with --criterion adaptive_loss_with_diversity "
                "only; other losses cannot train it"
            )
        if softmax is None and isinstance(self, AdaptiveLoss):
            raise UserError(
                "--criterion adaptive_loss_with_diversity: needs --adaptive-softmax-cutoff; give "
                "that, or --criterion cross_entropy_with_diversity"
            )
        if not self.diversity.wanted:
            return
        if not hasattr(model, "heads"):
            raise UserError(
                f"{self.diversity.options}: the model must show its heads, and a "
                f"{type(model).__name__} does not; give --arch transformer_disagree, which has "
                "the same parameters"
            )
        self.diversity.check_components(model.heads)

    def forward(self, model, sample, reduce=True):
        """Compute the loss as fairseq's criterion does, then add the terms.

        Returns:
            Loss, sample size, logging output.
        """
        self.check_model(model)
        wanted = self.diversity.wanted and self.diversity.wanted_of(model.heads)
        output_weight = self.output_weight(model, reduce)
        if not wanted and output_weight is None:
            return super().forward(model, sample, reduce)
        # Validation does not depend on the schedule.
        factor = self.diversity.factor(model) if self.training else 1.0
        recorder = Recorder(model, wanted if factor else (), output_weight)
        loss, sample_size, logging_output = super().forward(recorder, sample, reduce)
        if not recorder.head_states:
            return loss, sample_size, logging_output
        zero = loss.new_zeros(())
        measured = self.diversity.measure(recorder.head_states, sample_size, self.training)
        logged = {name: zero + term.value for name, term in measured.items()}
        if reduce:
            added = {name: factor * term.loss for name, term in measured.items()}
            if self.training:
                logged["diversity_loss"] = sum(added.values(), start=zero) / math.log(2)
            loss = loss + sample_size * sum(added.values())
        for name, value in logged.items():
            logging_output[_PREFIX + name] = value.detach() * sample_size
            logging_output[_SIZE + name] = sample_size
        return loss, sample_size, logging_output

    def output_weight(self, model, reduce: bool) -> Tensor | None:
        """Return the output projection's weight if the loss applies it, else None."""
        return None

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        """Log fairseq's metrics, and every active term averaged over the batches."""
        super().reduce_metrics(logging_outputs)
        names = sorted({key for log in logging_outputs for key in log if key.startswith(_PREFIX)})
        for key in names:
            name = key.removeprefix(_PREFIX)
            total, size = (
                sum(log.get(prefix + name, 0) for log in logging_outputs)
                for prefix in (_PREFIX, _SIZE)
            )
            if size:
                metrics.log_scalar(name, total / size, size, round=_DIGITS)
