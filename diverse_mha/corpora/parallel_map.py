"""Apply a function to every line of a file, over several processes, with a progress bar."""

import itertools
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from tqdm import tqdm

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.text import count_lines, read_lines, write_lines

LineFunction = Callable[[str], str]
CHUNK = 500  # lines handed to a process at a time

_function: LineFunction | None = None  # in a worker: the function that its initialiser built


def map_file(
    make: Callable[[], LineFunction], source: Path, target: Path, *, workers: int, label: str
) -> int:
    """Write ``function(line)`` for every line of ``source`` to ``target``; return how many.

    ``make`` builds the function, once in each process, since tokenisers and BPE models are costly
    to send; it must itself be picklable (functools.partial). One worker is this process.

    Raises:
        UserError: If a process is killed; and what ``make`` raises.
    """
    total = count_lines(source)
    workers = min(workers, -(-total // CHUNK)) or 1
    lines = _mapped(make, read_lines(source), workers)
    # disable=None: no bar when stderr is not a terminal.
    bar = tqdm(lines, label, total, leave=False, unit=" lines", disable=None)
    try:
        return write_lines(target, bar)
    except BrokenProcessPool:
        raise UserError(
            f"{label}: a process was killed (out of memory?); give fewer --workers than {workers}"
        ) from None


def _mapped(make: Callable[[], LineFunction], lines: Iterator[str], workers: int) -> Iterator[str]:
    function = make()  # with several processes only for its errors, which theirs could not report
    if workers == 1:
        yield from map(function, lines)
        return
    waiting = deque()
    with ProcessPoolExecutor(workers, initializer=_start, initargs=(make,)) as pool:
        try:
            while chunk := list(itertools.islice(lines, CHUNK)):
                waiting.append(pool.submit(_call, chunk))
                if len(waiting) > 4 * workers:  # enough for all; a large file is not read at once
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _start(make: Callable[[], LineFunction]) -> None:
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to report, once
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # what the parent does then is not a worker's
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _function = make()


def _end_with_parent() -> None:
    """Wait for the parent to be killed, which the executor's processes would outlive."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _call(lines: Sequence[str]) -> list[str]:
    return [_function(line) for line in lines]
