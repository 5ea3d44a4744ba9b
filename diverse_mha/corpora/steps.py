"""Steps that are done once: each writes one folder, whole or not at all.

A step works in ``NAME.tmp``, leaves a stamp there, and only then is the folder renamed to
``NAME``; if the step fails, ``NAME.tmp`` goes. The stamp holds a key: the hash of the step's
options and of the key of the step before it. A folder whose stamp has the right key, and whose
files are all there at the size they had, is not made again; anything else is, and with it all
that was made from it. What was there before goes once the new folder is whole, not earlier.
"""

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_json
from diverse_mha.common.processes import ended_in_order

STAMP = "stamp.json"
FORMAT = 1  # raised when a step comes to write something else from the same options


class Steps:
    """The steps of one output folder, in order, each by the folder that it writes.

    Raises:
        UserError: If ``local``, the folder given by --from, lies in one of those.
    """

    def __init__(self, out: Path, folders: tuple[str, ...], local: Path | None = None):
        self.out = out
        self.folders = folders
        for folder in (out / name for name in folders):
            if local is not None and local.resolve().is_relative_to(folder.resolve()):
                raise UserError(
                    f"--from {local}: it is in {folder}, which this command writes itself; copy "
                    "the text to another place and give that"
                )
            for ending in (".tmp", ".old.tmp"):  # what a killed run has left
                shutil.rmtree(out / f"{folder.name}{ending}", ignore_errors=True)
        self._key = f"format {FORMAT}"  # then that of the last step
        self._number = 0

    def run(self, title: str, options: dict, work: Callable[[Path], str]) -> None:
        """Do the next step, unless it is done, and print one line about it.

        Args:
            title: What the step is called in the output.
            options: All that decides what the step writes, beside the steps before it.
            work: Writes the step's files into the folder it is given and returns a summary
                of them for the output.
        """
        name = self.folders[self._number]
        self._number += 1
        head = f"[{self._number}/{len(self.folders)}] {title}: "
        # As text, in which a tuple is a list, as in the stamp of before.
        wanted = json.dumps([self._key, name, options], sort_keys=True, ensure_ascii=False)
        self._key = hashlib.sha256(wanted.encode()).hexdigest()
        folder = self.out / name
        stamp = read_stamp(folder)
        if stamp is not None and stamp["key"] == self._key:
            print(f"{head}{stamp['summary']} (already done)", flush=True)
            return
        outdated = [self.out / later for later in self.folders[self._number - 1 :]]
        for old in outdated:
            if old.exists() and not (old / STAMP).is_file():
                raise UserError(
                    f"{old} is there, but not from this command; move it away or choose another "
                    f"--out"
                )
        if sys.stderr.isatty():
            print(f"{head}...", end="\r", file=sys.stderr, flush=True)
        start = time.monotonic()
        temporary = self.out / f"{name}.tmp"
        temporary.mkdir(parents=True)
        try:
            with ended_in_order():
                summary = work(temporary)
            stamp = {"key": self._key, "summary": summary, "options": options}
            write_json(temporary / STAMP, stamp | {"files": _sizes(temporary)})
            for old in outdated:
                _remove(old)
            temporary.rename(folder)
        finally:
            # What an error leaves is of no use to the next run, and the disk may be full of it.
            shutil.rmtree(temporary, ignore_errors=True)
            clear = "\r\033[K" if sys.stderr.isatty() else ""
            print(clear, end="", file=sys.stderr, flush=True)
        print(f"{head}{summary}  {time.monotonic() - start:.0f} s", flush=True)


def _remove(folder: Path) -> None:
    if folder.exists():
        # Renamed first, so that half a folder is never met under the real name.
        shutil.rmtree(folder.rename(folder.with_name(f"{folder.name}.old.tmp")))


def read_stamp(folder: Path) -> dict | None:
    """Return the stamp of a finished step, or None if the folder is missing or not whole."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return stamp if stamp.get("files") == _sizes(folder) else None


def _sizes(folder: Path) -> dict[str, int]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(p.relative_to(folder)): p.stat().st_size for p in files if p.name != STAMP}
