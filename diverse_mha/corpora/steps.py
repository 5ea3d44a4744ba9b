"""Steps that are done once: each writes one folder, whole or not at all.

A step works in ``NAME.tmp``, leaves a stamp there, and only then is the folder renamed to
``NAME``; if the step fails, ``NAME.tmp`` goes. The stamp holds a key: the hash of the step's
options and of the key of the step before it. A folder whose stamp has the right key, and whose
files are all there at the size they had, is not made again; anything else is, and with it all
that was made from it. What was there before goes once the new folder is in its place, not earlier,
and never with a file in it that no step wrote. A finished corpus is replaced by another one only if
``force`` says so.
"""

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_json
from diverse_mha.common.processes import ended_in_order

STAMP = "stamp.json"
FORMAT = 1  # raised when a step comes to write something else from the same options


class Steps:
    """The steps of one output folder.

    Args:
        out: The output folder.
        options: By the folder that a step writes, all that decides what it writes beside the
            steps before it; in order.
        local: The folder given by --from, if any.
        force: Whether another corpus in ``out`` may be replaced.

    Raises:
        UserError: If ``local`` lies in one of the folders, or ``out`` holds another corpus.
    """

    def __init__(
        self,
        out: Path,
        options: Mapping[str, dict],
        local: Path | None = None,
        *,
        force: bool = False,
    ):
        self.out = out
        self.folders = tuple(options)
        self._options, self._number = options, 0
        left = [out / f"{name}{end}" for name in options for end in (".tmp", ".old.tmp")]
        for folder in [*(out / name for name in options), *left]:
            if local is not None and local.resolve().is_relative_to(folder.resolve()):
                raise UserError(
                    f"--from {local}: it is in {folder}, which this command writes itself; copy "
                    "the text to another place and give that"
                )
        self._keys, key = {}, f"format {FORMAT}"
        for name, chosen in options.items():
            # As text, in which a tuple is a list, as in the stamp of before.
            wanted = json.dumps([key, name, chosen], sort_keys=True, ensure_ascii=False)
            key = self._keys[name] = hashlib.sha256(wanted.encode()).hexdigest()
        if not force:
            self._keep_another_corpus()
        for folder in left:  # by a run that was killed
            _remove(folder)

    def _keep_another_corpus(self) -> None:
        """Refuse to replace a finished corpus that came from other text or options."""
        last = self.out / self.folders[-1]
        for name in self.folders if last.exists() else ():
            found = _read_json(self.out / name / STAMP)
            if "key" in found and found["key"] != self._keys[name]:
                before, now = found.get("options", {}), _as_json(self._options[name])
                names = [key for key in now | before if before.get(key) != now.get(key)]
                other = f"{name}/ has other {', '.join(names) or 'text'}"
                raise UserError(
                    f"{self.out} holds another prepared corpus ({_name_of(last)}{other}); "
                    "give another --out, or --force to replace it"
                )

    def run(self, title: str, work: Callable[[Path], str]) -> None:
        """Do the next step, unless it is done, and print one line about it.

        Args:
            title: What the step is called in the output.
            work: Writes the step's files into the folder it is given and returns a summary
                of them for the output.
        """
        name = self.folders[self._number]
        self._number += 1
        head = f"[{self._number}/{len(self.folders)}] {title}: "
        key, options = self._keys[name], self._options[name]
        folder = self.out / name
        stamp = read_stamp(folder)
        if stamp is not None and stamp["key"] == key:
            print(f"{head}{stamp['summary']} (already done)", flush=True)
            return
        outdated = [self.out / later for later in self.folders[self._number - 1 :]]
        for old in outdated:
            if foreign := _not_ours(old):
                raise UserError(
                    f"{foreign} is there, but not from this command; move it away or choose "
                    f"another --out"
                )
        if sys.stderr.isatty():
            print(f"{head}...", end="\r", file=sys.stderr, flush=True)
        start = time.monotonic()
        temporary = self.out / f"{name}.tmp"
        temporary.mkdir(parents=True)
        try:
            with ended_in_order():
                summary = work(temporary)
            stamp = {"key": key, "summary": summary, "options": options}
            write_json(temporary / STAMP, stamp | {"files": _sizes(temporary)})
            if os.path.lexists(folder):
                folder.rename(self.out / f"{name}.old.tmp")
            temporary.rename(folder)
            for old in (self.out / f"{name}.old.tmp", *outdated[1:]):
                _remove(old)
        finally:
            # What an error leaves is of no use to the next run, and the disk may be full of it.
            shutil.rmtree(temporary, ignore_errors=True)
            clear = "\r\033[K" if sys.stderr.isatty() else ""
            print(clear, end="", file=sys.stderr, flush=True)
        print(f"{head}{summary}  {time.monotonic() - start:.0f} s", flush=True)


def _remove(folder: Path) -> None:
    if folder.is_symlink():  # what it points to is the user's own place
        folder.unlink()
    elif folder.exists():
        # Without its stamp first, so that half a folder is never taken for a whole one.
        (folder / STAMP).unlink(missing_ok=True)
        shutil.rmtree(folder)


def _not_ours(folder: Path) -> Path | None:
    """Return the folder if no step wrote it, or a file in it that none did; None if all is ours."""
    try:
        written = json.loads((folder / STAMP).read_text(encoding="utf-8"))["files"]
    except (FileNotFoundError, NotADirectoryError):
        return folder if folder.exists() else None
    except (ValueError, KeyError, TypeError):  # a step's, but damaged
        return None
    return next((folder / name for name in _sizes(folder) if name not in written), None)


def _name_of(folder: Path) -> str:
    """Return what ``corpus.json`` calls the corpus of a folder: "own de-en; "."""
    made = _read_json(folder / "corpus.json")
    pair = "-".join(str(made[side]) for side in ("source", "target") if side in made)
    return " ".join(filter(None, (str(made.get("corpus", "")), pair))) + "; " if made else ""


def _read_json(path: Path) -> dict:
    """Return what a JSON file holds; nothing if it is missing or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _as_json(options: dict) -> dict:
    return json.loads(json.dumps(options))


def read_stamp(folder: Path) -> dict | None:
    """Return the stamp of a finished step, or None if the folder is missing or not whole."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        # Files beside those of the step do no harm.
        return stamp if stamp["files"].items() <= _sizes(folder).items() else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _sizes(folder: Path) -> dict[str, int]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(p.relative_to(folder)): p.stat().st_size for p in files if p.name != STAMP}
