"""Adds diversity terms to fairseq's criterions, and logs their values."""

import logging
import math

from fairseq.criterions import FairseqCriterion
from fairseq.criterions.adaptive_loss import AdaptiveLoss
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from diverse_mha.attention import Wanted
from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.typed import with_options
from diverse_mha.methods.diversity import DiversityTerms, diversity_options, logged_values

logger = logging.getLogger(__name__)

DiversityConfig = with_options(FairseqDataclass, diversity_options(), "DiversityConfig")


# Prefixes of keys in fairseq's logging output, which is summed over workers: the first for a term's
# value times the batch's sample size, the second for this sample size.
_PREFIX, _SIZE = "term/", "term_size/"
_DIGITS = 10  # decimal places in the log, because a term may be far below 1
_ADAPTIVE = Option("criterion", "adaptive_loss_with_diversity")


class Recorder:
    """Proxy of the model in a criterion's forward pass; requests and keeps the head states.

    fairseq's criterions call ``model(**sample["net_input"])`` themselves; the proxy adds arguments
    to that call.

    Args:
        model: the model, or a wrapper of it such as DDP's.
        wanted: names of ``HeadStates``, by component.
        output_weight: weight of the output projection (words, features) if the loss applies this
            projection; the model then returns features.
    """

    def __init__(self, model, wanted: Wanted, output_weight: Tensor | None = None):
        self._model = model
        self._wanted = wanted
        self.output_weight = output_weight
        self.head_states = {}

    def __call__(self, **net_input):
        """Call the model with the requests added, and return its output."""
        if self._wanted:
            net_input["return_head_states"] = self._wanted
        if self.output_weight is not None:
            net_input["features_only"] = True
        net_output = self._model(**net_input)
        self.head_states = net_output[1].get("head_states", {})
        return net_output

    def __getattr__(self, name):
        return getattr(self._model, name)


class DiversityMixin(FairseqCriterion):
    """Mixin: adds diversity terms to a fairseq criterion; list it before the criterion's class.

    The loss becomes token loss + sample_size * sum of weight * term. fairseq divides gradients by
    sample_size, so training minimises mean token loss + weight * term for any batch size, unless a
    term's normalisation differs. With ``reduce=False``, terms are logged and not added.

    The logged ``loss`` is the token loss alone, so that losses with and without terms can be
    compared. Every term is logged too, as the sum over its components and of each component, and in
    training ``diversity_loss``, the weighted sum of the terms (in bits).
    """

    diversity: DiversityTerms

    @property
    def method_options(self) -> tuple[str, ...]:
        """Options, a plugin's included, that must not change when a run is resumed."""
        return tuple(f.name for f in diversity_options())

    @classmethod
    def build_criterion(cls, cfg, task):
        """Build fairseq's criterion, and the terms from the options of ``DiversityConfig``."""
        terms = DiversityTerms.from_config(cfg)
        criterion = super().build_criterion(cfg, task)
        criterion.diversity = terms
        return criterion

    def check_model(self, model) -> None:
        """Raise :class:`UserError` if the model does not fit the criterion and its terms."""
        softmax = getattr(getattr(model, "decoder", None), "adaptive_softmax", None)
        if softmax is not None and not isinstance(self, AdaptiveLoss):
            raise UserError(
                Option("adaptive_softmax_cutoff"), ": needs ", _ADAPTIVE,
                "; other losses cannot train an adaptive softmax",
            )  # fmt: skip
        if softmax is None and isinstance(self, AdaptiveLoss):
            raise UserError(
                _ADAPTIVE, ": needs ", Option("adaptive_softmax_cutoff"),
                "; add this option, or give ",
                Option("criterion", "cross_entropy_with_diversity"),
            )  # fmt: skip
        if not self.diversity.wanted:
            return
        if not hasattr(model, "heads"):
            raise UserError(
                *self.diversity.options,
                f": a {type(model).__name__} does not return head states; give ",
                Option("arch", "transformer_disagree"), ", which has the same parameters",
            )  # fmt: skip
        self.diversity.check_components(model.heads)

    def begin_training(self, model) -> None:
        """Check the model, once, before the first update; log if such trainings are known to fail.

        Raises:
            UserError: as :meth:`check_model`.
        """
        self.check_model(model)
        if self.diversity.wanted:
            for risk in self.diversity.risks(model.heads, model.post_norm):
                logger.info("%s", risk)

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
        logged = {name: zero + value for name, value in logged_values(measured).items()}
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
