"""Prints the SHA-256 of the files in the folders of a preparation.

``data-prep/steps.sh`` calls it with a cache and pairs of name and folder, before the first step and
after each step. A line is ``NAME SHA256 ./PATH``. A file is read again only if its size, number or
times differ from the cache, so a finished preparation of gigabytes is checked at once.
"""

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from diverse_mha.common.errors import run_cli
from diverse_mha.common.files import FileHashes, write_json

STAMP = "stamp"  # the file in a step's folder that records the others


def read_cache(file: Path) -> dict:
    """Return the cache; an empty one if it is missing or damaged."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def files_of(folder: Path) -> Iterator[Path]:
    """Yield the regular files below a folder but for stamps, in order."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.name != STAMP:
            yield path


def main(words: list[str]) -> None:
    """Print the hashes, and update the cache: ``CACHE NAME FOLDER [NAME FOLDER ...]``."""
    file, folders = Path(words[0]), dict(zip(words[1::2], map(Path, words[2::2]), strict=True))
    before = read_cache(file)
    kept = {key: known for key, known in before.items() if key.partition("/")[0] not in folders}
    hashes = FileHashes(before)
    for name, folder in folders.items():
        for path in files_of(folder):
            inside = path.relative_to(folder)
            key = f"{name}/{inside}"
            print(name, hashes.of(path, key), f"./{inside}")
            kept[key] = hashes.known[key]
    if kept != before or not file.exists() and kept:
        with contextlib.suppress(OSError):  # only a cache
            write_json(file, kept)


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
