"""Progress of long computations: a bar on a terminal, otherwise a line every half minute."""

import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

EVERY = 30.0  # seconds between lines
NOTES_EVERY = 0.5  # minimum seconds between changes of a bar's note
Item = TypeVar("Item")


def hide_log(name: str = "fairseq") -> None:
    """Hide a package's log messages below warnings.

    ``name=""`` hides those of all packages that set no level of their own.
    """
    logging.getLogger(name).setLevel(logging.WARNING)


def counted(number: int, noun: str) -> str:
    """Return ``1 line``, ``1,234 lines``, ``2 processes``."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def terminal_bar(**options):
    """Return a tqdm progress bar that is drawn only on a terminal, and removed when it ends."""
    from tqdm import tqdm

    return tqdm(leave=False, disable=None, **options)


class Progress:
    """Progress on stderr: number of finished items, and a note on the current one."""

    def __init__(self, label: str, unit: str, total: int | None = None):
        self._label, self._unit, self._total = label, unit, total
        self._done, self._last = 0, time.monotonic()
        self._bar = terminal_bar(total=total, desc=label, unit=f" {unit}")

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def advance(self, count: int = 1) -> None:
        """Count finished items."""
        self._done += count
        self._bar.set_postfix_str("", refresh=False)
        self._bar.update(count)
        if self._done != self._total:
            self._print()

    def note(self, text: str) -> None:
        """Show the progress within the current item."""
        if not self._bar.disable and time.monotonic() - self._last >= NOTES_EVERY:
            self._last = time.monotonic()
            self._bar.set_postfix_str(text)
        self._print(f", {text}")

    def _print(self, more: str = "") -> None:
        if self._bar.disable and time.monotonic() - self._last >= EVERY:
            self._last = time.monotonic()
            of = "" if self._total is None else f" of {self._total:,}"
            single = (self._done if self._total is None else self._total) == 1
            unit = self._unit
            if single:
                unit = unit[:-2] if unit.endswith("ches") else unit.removesuffix("s")
            print(f"{self._label}: {self._done:,}{of} {unit}{more}", file=sys.stderr, flush=True)


def with_progress(
    items: Iterable[Item], label: str, unit: str, *, total: int | None = None
) -> Iterator[Item]:
    """Yield ``items`` with their progress and the time left on stderr.

    ``label`` names the computation, ``unit`` an item. If the items have no length, give ``total``;
    otherwise the time left is not shown.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with Progress(label, unit, total) as progress:
        for item in items:
            yield item
            progress.advance()
