"""Room on the disk: how much a corpus needs, and whether it is there."""

import shutil
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.corpus import Corpus

# raw, tok, clean and bpe hold about the text each, bin about half of it; the rest is reserve.
_COPIES = 6


def download_bytes(corpus: Corpus) -> int:
    """Return the bytes of all published files; where a size is not published, its estimate."""
    return corpus.unsized + sum(file.size or 0 for file in corpus.published())


def work_bytes(corpus: Corpus, local: Path | None = None) -> int:
    """Return the bytes that the steps need, apart from the published files.

    While fetching, what was unpacked lies beside the text that is made of it; afterwards each
    step holds about one copy of the text. Both are in proportion to the files, which may be
    smaller in a folder that stands in for the download.
    """
    needed = max(2 * corpus.unpacked, _COPIES * corpus.text)
    published = download_bytes(corpus)
    if local is None or not published:
        return needed
    files = [(file, file.in_folder(local)) for file in corpus.published()]
    there = sum(path.stat().st_size if path else file.size or 0 for file, path in files)
    return int(needed * min(1.0, there / published))


def human(size: float) -> str:
    """Write a number of bytes for people, as in "1.7 GB" (powers of ten)."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB" if size < 100 else f"{size:.0f} GB"


def require_space(folder: Path, needed: int) -> None:
    """Refuse to start what the disk of a folder, which need not be there yet, cannot hold.

    What was downloaded into it already counts as room; what an earlier run made of it does not,
    since it goes only after the new.

    Raises:
        UserError: If less than ``needed`` bytes are free.
    """
    downloads = (folder / "download").rglob("*")
    present = sum(path.stat().st_size for path in downloads if path.is_file())
    place = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    free = shutil.disk_usage(place).free
    if free < needed - present:
        raise UserError(
            f"{folder}: about {human(needed - present)} are needed and {human(free)} are free; "
            f"free some space on this disk, or choose an --out on another"
        )
