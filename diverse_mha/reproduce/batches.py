"""The effective batch, kept whatever the number of GPUs."""

from diverse_mha.errors import UserError


def update_freq(batches: int, processes: int) -> int:
    """Number of batches that each process adds up before an update.

    An update takes ``batches`` batches of ``max_tokens`` in all, however many processes share
    them: their number times the result is always ``batches``.

    Args:
        batches: Batches an update, at least 1: the recipe's ``optimization.update_freq``.
        processes: GPUs, or processes on the CPU.

    Raises:
        UserError: if the processes cannot share the batches equally.
    """
    if processes < 1 or batches % processes:
        fitting = ", ".join(str(n) for n in range(1, batches + 1) if batches % n == 0)
        raise UserError(
            f"--gpus {processes}: an update takes {batches} batches, which {processes} cannot "
            f"share equally; use {fitting}"
        )
    return batches // processes


def usable(batches: int, processes: int) -> int:
    """Return the largest number up to ``processes`` that can share the batches equally."""
    return max(n for n in range(1, max(1, min(batches, processes)) + 1) if batches % n == 0)
