"""What every criterion of this package adds to fairseq's: terms on the heads."""

from fairseq.logging import metrics
from torch import Tensor

from diverse_mha.criterions.terms import DiversityTerms
from diverse_mha.errors import OptionError

# Terms travel in fairseq's logging output under this prefix, summed over workers.
_PREFIX = "term/"
# HSIC may be far below 1; fairseq prints six significant digits of what is left.
_DIGITS = 10


class Recorder:
    """Stands in for the model in a criterion's forward pass and keeps the head states.

    fairseq's criterions call ``model(**sample["net_input"])`` themselves; this asks
    for the states in that one call, so that nothing of theirs is written again.

    Args:
        model: the model, or what wraps it.
        wanted: names of ``HeadStates``.
        output_weight: (V, C), given if the loss does the output projection itself: the
            model is then asked for features.
    """

    def __init__(self, model, wanted: tuple[str, ...], output_weight: Tensor | None = None):
        self._model = model
        self._wanted = wanted
        self.output_weight = output_weight
        self.head_states = {}

    def __call__(self, **net_input):
        """Run the model and return what it returns."""
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
    """Adds diversity terms to a fairseq criterion; goes before it among the bases.

    The loss becomes token loss + sample_size * sum of weight * term. fairseq divides
    gradients by sample_size, so training minimises mean token loss + weight * term
    whatever the batch size, unless a term's normalisation says otherwise.
    ``reduce=False`` asks for losses per token, to which a term of the whole batch does
    not belong: there it is logged and not added.

    Logged as ``loss`` is the token loss alone, so that loss and perplexity, and the
    checkpoint chosen by them, are the same quantity with and without terms; every
    term is logged beside it.
    """

    diversity: DiversityTerms

    @classmethod
    def build_criterion(cls, cfg, task):
        """Build fairseq's criterion, and the terms from the options of ``DiversityConfig``.

        Raises:
            OptionError: for an unknown name or an impossible weight.
        """
        terms = DiversityTerms.from_config(cfg)
        criterion = super().build_criterion(cfg, task)
        criterion.diversity = terms
        return criterion

    def check_model(self, model) -> None:
        """Refuse a model that cannot give the terms what they need; called before training.

        Raises:
            OptionError: if the model shows no heads, or lacks a component that is named.
        """
        if not self.diversity.wanted:
            return
        if not hasattr(model, "components"):
            raise OptionError(
                f"{self.diversity.options}: the model must show its heads, and a "
                f"{type(model).__name__} does not; give --arch transformer_disagree, which has "
                "the same parameters"
            )
        self.diversity.check_components(model.components)

    def forward(self, model, sample, reduce=True):
        """Compute the loss as fairseq's criterion does, then add the terms.

        Returns:
            Loss, sample size, logging output.
        """
        self.check_model(model)
        wanted = self.diversity.wanted
        output_weight = self.output_weight(model, reduce)
        if not wanted and output_weight is None:
            return super().forward(model, sample, reduce)
        recorder = Recorder(model, wanted, output_weight)
        loss, sample_size, logging_output = super().forward(recorder, sample, reduce)
        measured = self.diversity.measure(recorder.head_states, sample_size, self.training)
        if reduce and measured:
            loss = loss + sample_size * sum(term.loss for term in measured.values())
        for name, term in measured.items():
            logging_output[_PREFIX + name] = _data(term.value) * sample_size
        return loss, sample_size, logging_output

    def output_weight(self, model, reduce: bool) -> Tensor | None:
        """Return the output projection's weight if the loss is to apply it, else None."""
        return None

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        """Log fairseq's metrics, and every active term averaged over the batches."""
        super().reduce_metrics(logging_outputs)
        sample_size = sum(log.get("sample_size", 0) for log in logging_outputs)
        names = sorted({key for log in logging_outputs for key in log if key.startswith(_PREFIX)})
        for key in names:
            total = sum(log.get(key, 0) for log in logging_outputs)
            name = key.removeprefix(_PREFIX)
            metrics.log_scalar(name, total / max(sample_size, 1), sample_size, round=_DIGITS)


def _data(value: Tensor | float):
    return value.detach() if isinstance(value, Tensor) else value
