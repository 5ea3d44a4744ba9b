"""Progress of long work: a bar on a terminal, elsewhere a line every half minute."""

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

EVERY = 30.0  # seconds between lines
Item = TypeVar("Item")


def shown(items: Iterable[Item], label: str, unit: str, *, total: int | None = None) -> Iterator:
    """Yield ``items`` and show on stderr how many are done, with the time left.

    ``label`` names the work, ``unit`` one item. Items without a length need a ``total``.
    """
    from tqdm import tqdm

    if total is None and isinstance(items, Sized):
        total = len(items)
    last = time.monotonic()
    with tqdm(total=total, desc=label, unit=f" {unit}", leave=False, disable=None) as bar:
        for done, item in enumerate(items, 1):
            yield item
            bar.update()
            if bar.disable and time.monotonic() - last >= EVERY and done != total:
                last = time.monotonic()
                of = "" if total is None else f" of {total:,}"
                print(f"{label}: {done:,}{of} {unit}", file=sys.stderr, flush=True)
