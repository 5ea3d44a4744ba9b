"""The effective batch, kept whatever the number of GPUs."""


def usable(batches: int, processes: int) -> int:
    """Return the largest number up to ``processes`` that can share the batches of an update.

    An update takes ``batches`` batches of ``max_tokens`` in all (the recipe's
    ``optimization.update_freq``), however many processes share them: the result times the batches
    that each adds up is always ``batches``. 0 processes, no GPUs, give 0.
    """
    return max((n for n in range(1, min(batches, processes) + 1) if batches % n == 0), default=0)
