"""Fetch published files: from a local folder, or over the network, with resume and checks.

A download grows in ``NAME.part``. Whatever ends it early, the next attempt asks the server for
the rest only (over FTP for all of it). It is renamed to ``NAME`` after its size and checksums have
been found right, so a file of that name is always whole.
"""

import errno
import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.published import PublishedFile, verify

ATTEMPTS = 3  # per address, each going on where the last one stopped
PAUSE = 2.0  # seconds before the second attempt; doubled before the third
TIMEOUT = 60  # seconds without a byte
BLOCK = 1 << 16
#: The connection ended before the file did; another attempt may go on from there.
BROKEN = (TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException)
#: The network has gone, which Python has no class of errors for.
GONE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)


def find_local(file: PublishedFile, folder: Path) -> Path:
    """Return the verified copy of a file in a folder that has one, packed or not.

    Raises:
        UserError: If it is not the published file.
    """
    path = file.in_folder(folder)
    # The packed size and checksum say nothing about an unpacked copy.
    text_only = PublishedFile(path.name, text_checksum=file.text_checksum, lines=file.lines)
    verify(file if path.name == file.name else text_only, path)
    return path


def require_local(
    files: Sequence[PublishedFile], folder: Path, cure: str = "leave out --from"
) -> None:
    """Refuse a folder, given by ``--from``, that lacks some of the files, packed or not.

    Raises:
        UserError: Naming the folder, or every file that is missing, and the cure.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}, given by --from, is not a folder")
    missing = [" or ".join(file.local_names) for file in files if not file.in_folder(folder)]
    if missing:
        what = "it" if len(missing) == 1 else "them"
        instead = f", or {cure}" if files[0].urls else ""
        raise UserError(f"{folder} has no {', no '.join(missing)}; put {what} there{instead}")


def download(file: PublishedFile, folder: Path) -> Path:
    """Return ``folder/NAME``, downloaded and verified unless it is there already.

    One that is there already is checked like any other: it may be from a run that checked
    nothing, or have been put there by hand. The file's addresses are tried in turn.

    Raises:
        UserError: If what is there is another file, or no address gives the right one, with the
            last reason of each.
    """
    path = folder / file.name
    if path.is_file():
        try:
            verify(file, path)
        except UserError as error:
            raise UserError(f"{error}; delete it, and the published one is fetched") from None
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / (file.name + ".part")
    reasons = []
    for url in file.urls:
        reason = _try_address(file, url, part)
        if reason is None:
            part.rename(path)
            return path
        reasons.append(f"{url}: {reason}")
    raise UserError(
        f"cannot download {file.name} ({'; '.join(reasons)}); run the same command again to go "
        f"on where it stopped, or put the file into a folder and name that with --from"
    )


def _try_address(file: PublishedFile, url: str, part: Path) -> str | None:
    """Try one address; return None once ``part`` is whole and right, else the reason."""
    reason = "no attempt made"
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        resumed = part.exists()
        try:
            _transfer(url, part, file)
            verify(file, part)
            return None
        except UserError as error:
            part.unlink()  # all there and still wrong: nothing to go on from
            reason = str(error)
            if not resumed:
                return reason
            # The first piece may have been another version of the file: once more, from zero.
        except BROKEN as error:
            reason = f"the connection broke ({error or 'timed out'})"
        except urllib.error.HTTPError as error:
            return f"the server answers {error.code} {error.reason}"
        except urllib.error.URLError as error:
            return f"cannot reach the server ({error.reason})"
        except OSError as error:
            if error.errno not in GONE:
                raise
            reason = f"the connection broke ({error.strerror})"
    return reason


def _transfer(url: str, part: Path, published: PublishedFile) -> None:
    """Append to ``part`` what is missing of the file at ``url``."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "diverse-mha"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing lies beyond what we have
            return
        raise
    with response:
        if response.status != 206:
            have = 0  # the server sends the whole file; over FTP it always does
        rest = response.headers.get("Content-Length")
        total = have + int(rest) if rest is not None else published.size
        bar = tqdm(
            total=total, initial=have, desc=published.name, unit="B", unit_scale=True, leave=False,
            disable=None,
        )  # fmt: skip
        with open(part, "ab" if have else "wb") as file, bar:
            while block := response.read(BLOCK):
                file.write(block)
                bar.update(len(block))
    size = part.stat().st_size
    if total is not None and size < total:
        raise ConnectionError(f"after {size:,} of {total:,} bytes")
