"""Cross-entropy over classes with diversity terms, for sentence classification."""

import math

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.logging import metrics

from diverse_mha.common.errors import Option, UserError
from diverse_mha.criterions.diversity import DiversityConfig, DiversityMixin

# Prefixes of a group's counts in fairseq's logging output, summed over workers.
_CORRECT, _TOTAL = "correct/", "total/"


class SentenceClassificationCriterion(FairseqCriterion):
    """Cross-entropy of the classes; accuracy in percent, in validation also by group."""

    def __init__(self, task):
        super().__init__(task)
        if not hasattr(task, "labels"):
            name = "sentence_classification"
            criterion = Option("criterion", f"{name}_with_diversity")
            raise UserError(criterion, " needs ", Option("task", name))
        self.groups = [f"{task.cfg.accuracy_by}_{name}" for name in task.groups]

    def forward(self, model, sample, reduce=True):
        """Compute the loss of a batch of B examples.

        Returns:
            Loss in nats, summed over the examples or, with ``reduce=False``, one for each (B,);
            sample size B; logging output.
        """
        scores = model(**sample["net_input"])[0]  # (B, classes)
        target = sample["target"]
        losses = F.cross_entropy(scores.float(), target, reduction="none")  # (B,)
        correct = scores.argmax(dim=-1) == target
        logging_output = {
            "loss": losses.detach().sum(),
            "correct": correct.sum(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": sample["nsentences"],
        }
        if self.groups and not self.training:
            count = len(self.groups)
            totals = torch.bincount(sample["group"], minlength=count)
            rights = torch.bincount(sample["group"][correct], minlength=count)
            # Groups that the batch lacks are logged too: all workers must log the same names.
            for number, name in enumerate(self.groups):
                logging_output[_CORRECT + name] = rights[number]
                logging_output[_TOTAL + name] = totals[number]
        return losses.sum() if reduce else losses, sample["nsentences"], logging_output

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        """Log the loss in bits per example, and accuracies in percent, over all workers."""

        def total(key: str) -> float:
            return float(sum(log.get(key, 0) for log in logging_outputs))

        examples = total("sample_size")
        loss = total("loss") / max(examples, 1) / math.log(2)
        metrics.log_scalar("loss", loss, examples, round=4)
        if examples:
            metrics.log_scalar("accuracy", 100 * total("correct") / examples, examples, round=2)
        for key in sorted({key for log in logging_outputs for key in log}):
            name = key.removeprefix(_TOTAL)
            if name == key or not total(key):
                continue
            accuracy = 100 * total(_CORRECT + name) / total(key)
            metrics.log_scalar(f"accuracy_{name}", accuracy, total(key), round=2)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Return True: every value is a sum or a count."""
        return True


@register_criterion("sentence_classification_with_diversity", dataclass=DiversityConfig)
class SentenceClassificationWithDiversity(DiversityMixin, SentenceClassificationCriterion):
    """Cross-entropy of the classes plus the terms that are switched on.

    The minimised loss is mean cross-entropy (nats per example) + sum of weight * term, with terms
    over the positions of all sentences of the batch.
    """
