"""Keeps a recipe's batch size: divides ``update_freq`` by the number of processes."""

from diverse_mha.common.errors import UserError
from diverse_mha.training.request import Request

KEY = "optimization.update_freq"


def processes_of(job: Request) -> int:
    """Return the number of processes: as requested, else the number of GPUs, else 1."""
    given = job.number("distributed_training", "distributed_world_size") or job.processes
    if given is not None:
        return max(1, given)
    if job.flag("common", "cpu"):
        return 1
    import torch

    return max(1, torch.cuda.device_count())


def divide(job: Request, processes: int) -> tuple[list[int], str]:
    """Return ``update_freq`` for a number of processes, and a note that explains it.

    A recipe's ``update_freq`` is the number of batches per update of all processes together. Each
    process gets an equal share, rounded, of at least one batch. ``optimization.update_freq`` on the
    command line always wins.
    """
    wanted = (job.recipe.get("optimization") or {}).get("update_freq") or [1]
    if not isinstance(wanted, list) or any(not str(x).isdecimal() or int(x) < 1 for x in wanted):
        raise UserError(
            f"{job.config}: {KEY}={wanted}: must be a list of whole numbers from 1; give it as [4]"
        )
    wanted = [int(x) for x in wanted]
    given = any(word.lstrip("+").startswith(KEY + "=") for word in job.arguments)
    if given or processes == 1:
        return wanted, ""
    shares = [max(1, round(number / processes)) for number in wanted]
    each = f"{_list(shares)} in each of {processes} processes"
    note = f"batch: {_list(wanted)} batches per update, {each}"
    rounded = [share * processes for share in shares]
    if rounded != wanted:
        note = (
            f"batch: {_list(rounded)} batches per update instead of the recipe's {_list(wanted)}, "
            f"which {processes} processes cannot share equally; {KEY}=[N] sets the number per "
            "process"
        )
    return shares, note


def choose(job: Request) -> tuple[list[str], str]:
    """Return the override of ``update_freq``, if any, and a note that explains it."""
    processes = processes_of(job)
    shares, note = divide(job, processes)
    return ([f"++{KEY}=[{','.join(map(str, shares))}]"] if note else []), note


def _list(numbers: list[int]) -> str:
    return ", then ".join(map(str, numbers))
