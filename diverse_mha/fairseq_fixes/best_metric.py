"""``--best-checkpoint-metric``: a metric that the validation does not log ends in one line.

fairseq-fixed 0.12.3.1 ends the first validation with a traceback, ``KeyError: 'bleu'``.
"""

from typing import Any

from diverse_mha.common.errors import Option, UserError
from diverse_mha.fairseq_fixes.patch import patch_training


def check_metric(cfg: Any) -> None:
    """Raise an error for ``--best-checkpoint-metric bleu`` without ``--eval-bleu``."""
    metric = cfg.checkpoint.best_checkpoint_metric
    if metric == "bleu" and getattr(cfg.task, "eval_bleu", None) is False:
        needed = Option("eval_bleu", True)
        raise UserError(Option("best_checkpoint_metric", metric), ": needs ", needed, "; add it")


def check_validations() -> None:
    """Patch fairseq's ``get_valid_stats`` to check that a validation has logged the metric.

    What a validation logs is not known before.
    """
    patch_training("get_valid_stats", check_logged)


def check_logged(summarize, cfg, trainer, stats, *rest):
    """Return fairseq's statistics of a validation; raise an error if the metric is not in them."""
    metric = cfg.checkpoint.best_checkpoint_metric
    # A task with post_validate may add the metric later.
    if metric not in stats and not hasattr(trainer.task, "post_validate"):
        raise UserError(
            Option("best_checkpoint_metric", metric),
            f": the validation does not log it; give one of {', '.join(sorted(stats))}",
        )
    return summarize(cfg, trainer, stats, *rest)
