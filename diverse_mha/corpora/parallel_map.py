"""Apply a function to every line of a file, over several processes, with a progress bar."""

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from diverse_mha.corpora.text import count_lines, read_lines, write_lines

LineFunction = Callable[[str], str]
CHUNK = 500  # lines handed to a process at a time

_function: LineFunction | None = None  # in a worker: the function that its initialiser built


def map_file(
    make: Callable[[], LineFunction], source: Path, target: Path, *, workers: int, label: str
) -> int:
    """Write ``function(line)`` for every line of ``source`` to ``target``, in the same order.

    Args:
        make: Builds the function. It is called once in each process, since tokenisers and BPE
            models are costly to send; it must itself be picklable (functools.partial).
        source: UTF-8 text to read.
        target: UTF-8 text to write.
        workers: Number of processes; 1 works in this one.
        label: What the progress bar says.

    Returns:
        The number of lines.
    """
    total = count_lines(source)
    workers = min(workers, -(-total // CHUNK)) or 1
    lines = _mapped(make, read_lines(source), workers)
    # disable=None: no bar when stderr is not a terminal.
    bar = tqdm(lines, label, total, leave=False, unit=" lines", disable=None)
    return write_lines(target, bar)


def _mapped(make: Callable[[], LineFunction], lines: Iterable[str], workers: int) -> Iterator[str]:
    if workers == 1:
        yield from map(make(), lines)
        return
    with multiprocessing.Pool(workers, initializer=_start, initargs=(make,)) as pool:
        yield from pool.imap(_call, lines, chunksize=CHUNK)


def _start(make: Callable[[], LineFunction]) -> None:
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to report, once
    _function = make()


def _call(line: str) -> str:
    return _function(line)
