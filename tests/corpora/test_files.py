"""Fetching files from a folder or a server, and unpacking archives."""

import gzip
import hashlib
import http.server
import io
import subprocess
import tarfile
import threading
import zipfile

import pytest

from tests.corpora.miniature import write_archive
from tests.corpora.scripts import ROOT, environment

DATA = bytes(range(256)) * 1200
CALL = f""". {ROOT}/data-prep/common.sh
sleep() {{ :; }}
exec 3>&1
out=out tmp=tmp python=$DIVERSE_MHA_PYTHON
"$@"
echo "got $got"
"""


class Server(http.server.ThreadingHTTPServer):
    """Serves ``data`` under every path except ``/missing``, and records the requested ranges.

    ``cuts``: number of bytes after which each of the next responses ends. ``ranges``: False if
    the server ignores requested ranges.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.data, self.cuts, self.ranges, self.requests = DATA, [], True, []

    def url(self, name="file"):
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers a request according to the server's settings."""

    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        server.requests.append(wanted)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        if self.path == "/missing":
            self.send_error(404)
            return
        if wanted and server.ranges and start >= len(server.data):
            self.send_error(416)
            return
        partial = wanted and server.ranges
        self.send_response(206 if partial else 200)
        body = server.data[start if partial else 0 :]
        if partial:
            last = len(server.data) - 1
            self.send_header("Content-Range", f"bytes {start}-{last}/{len(server.data)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.cuts.pop(0)] if server.cuts else body)

    def log_message(self, *args):
        """Log nothing."""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def part(tmp_path):
    """Return the path of a partial download."""
    (tmp_path / "out/download").mkdir(parents=True)
    return tmp_path / "out/download/file.part"


def call(folder, *words, before="", refuses=False):
    """Call a function of common.sh as a step does; return its output, or its error if refused.

    ``before``: shell commands to run first. ``refuses``: True if the function must fail.
    """
    done = subprocess.run(
        ["bash", "-c", CALL.replace("exec 3", f"{before}\nexec 3"), "prepare-x.sh", *words],
        cwd=folder, env=environment(real=True), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == (2 if refuses else 0), done.stderr
    assert done.stderr.count("\n") == refuses, done.stderr
    return done.stderr if refuses else done.stdout


def sha256(data=DATA):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def fetched(folder):
    return (folder / "out/download/file").read_bytes()


def test_a_download_is_checked_and_not_repeated(server, tmp_path):
    for _ in range(2):
        assert call(tmp_path, "fetch", "file", sha256(), server.url()) == "got out/download/file\n"
    assert fetched(tmp_path) == DATA and server.requests == [None]
    (tmp_path / "out/download/file").write_bytes(b"<html>no such archive</html>")
    printed = call(tmp_path, "fetch", "file", sha256(), server.url(), refuses=True)
    assert "is not the published file: its sha256 is" in printed and "; delete it, and" in printed


def test_interrupted_download_resumes(server, tmp_path):
    server.cuts = [100_000, 50_000]
    call(tmp_path, "fetch", "file", sha256(), server.url())
    assert fetched(tmp_path) == DATA
    assert server.requests == [None, "bytes=100000-", "bytes=150000-"]


def test_next_run_resumes_a_partial_download(server, tmp_path, part):
    server.cuts = [10, 10, 10]
    printed = call(tmp_path, "fetch", "file", sha256(), server.url(), refuses=True)
    assert (
        "cannot download file (" in printed and "; run the same command again to resume" in printed
    )
    assert part.stat().st_size == 30
    call(tmp_path, "fetch", "file", sha256(), server.url())
    assert fetched(tmp_path) == DATA and server.requests[-1] == "bytes=30-"


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("left", [DATA, b"x" * 1000, b"x" * (len(DATA) + 1)])
def test_partial_files_are_verified_or_discarded(server, tmp_path, part, ranges, left):
    """The file on the server may have changed, or the server may not support ranges."""
    server.ranges = ranges
    part.write_bytes(left)
    call(tmp_path, "fetch", "file", sha256(), server.url())
    assert fetched(tmp_path) == DATA and not part.exists()


def test_wrong_checksums_are_rejected_and_mirrors_tried_in_turn(server, tmp_path):
    printed = call(tmp_path, "fetch", "file", sha256(b"other"), server.url(), refuses=True)
    assert "is not the published file: its sha256 is" in printed and "--from" in printed
    assert not list((tmp_path / "out/download").iterdir()) and len(server.requests) == 1
    urls = ["http://127.0.0.1:9/file", server.url("missing")]
    printed = call(tmp_path, "fetch", "file", sha256(), *urls, refuses=True)
    assert "connect" in printed and "404" in printed
    call(tmp_path, "fetch", "file", sha256(), *urls, server.url())
    assert fetched(tmp_path) == DATA


def test_a_file_of_a_git_repository_is_verified_by_its_object_id(server, tmp_path):
    blob = hashlib.sha1(b"blob %d\0" % len(DATA) + DATA).hexdigest()
    printed = call(tmp_path, "fetch", "file", f"git-blob:{'0' * 40}", server.url(), refuses=True)
    assert f"is not the published file: its git-blob is {blob}, expected 0000" in printed
    assert call(tmp_path, "fetch", "file", f"git-blob:{blob}", server.url()) == (
        "got out/download/file\n"
    )


def test_a_missing_checksum_is_logged(server, tmp_path):
    printed = call(tmp_path, "fetch", "file", "none", server.url())
    assert printed.startswith(f"note: no checksum of file is known; its sha256 is {sha256()[7:]}\n")


def test_a_download_that_is_no_archive_is_deleted_unless_its_checksum_is_right(server, tmp_path):
    (tmp_path / "tmp").mkdir()
    function = 'twice() { fetch "$@" && unpack "$got" text; }'
    printed = call(tmp_path, "twice", "x.zip", "none", server.url(), before=function, refuses=True)
    assert "out/download/x.zip was not the archive (" in printed and "is deleted; " in printed
    assert not (tmp_path / "out/download/x.zip").exists()
    words = ("twice", "x.zip", sha256(), server.url())
    printed = call(tmp_path, *words, before=function, refuses=True)
    assert "out/download/x.zip is the published file, but cannot be unpacked (" in printed
    assert (tmp_path / "out/download/x.zip").read_bytes() == DATA


def test_a_missing_program_is_named_before_the_download(server, tmp_path):
    for missing in ("unzip", "curl"):
        before = f'command() {{ [[ $2 != {missing} ]] && builtin command "$@"; }}'
        words = ("fetch", "x.zip", "none", server.url())
        printed = call(tmp_path, *words, before=before, refuses=True)
        assert f"the program {missing} is missing; install it" in printed
    assert server.requests == []


@pytest.mark.parametrize("name", ["t.txt.gz", "t.txt"])
def test_files_in_a_folder_may_be_plain_or_gzipped(tmp_path, name):
    text = b"eins\nzwei\n"
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    words = ["fetch", "t.txt.gz", f"text-{sha256(text)}", "http://x"]
    before = "from=f"
    assert call(tmp_path, *words, before=before) == f"got f/{name}\n"
    (tmp_path / "f" / name).write_bytes(gzip.compress(text)[:-4])
    assert "not the published" in call(tmp_path, *words, before=before, refuses=True)
    (tmp_path / "f" / name).unlink()
    printed = call(tmp_path, *words, before=before, refuses=True)
    assert "f has no t.txt.gz; put it there, or leave out --from" in printed


@pytest.mark.parametrize("name", ["x.tar.gz", "x.zip"])
def test_only_named_members_are_unpacked(tmp_path, name):
    (tmp_path / "tmp").mkdir()
    files = {"a/good": b"good", "../evil": b"evil", "/etc/evil": b"evil", "a/more": b"more"}
    write_archive(tmp_path / name, files)
    call(tmp_path, "unpack", name, "a/good")
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(path.name for path in found) == ["good", name]
    printed = call(tmp_path, "unpack", name, "a/lacking", refuses=True)
    assert f"{name} is damaged, cut off, or without a text (" in printed


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.FIFOTYPE, "zip"])
def test_archive_members_must_be_regular_files(tmp_path, kind):
    (tmp_path / "tmp").mkdir()
    if kind == "zip":
        name = "x.zip"
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            info = zipfile.ZipInfo("text")
            info.create_system, info.external_attr = 3, 0o120777 << 16
            archive.writestr(info, "/etc/passwd")
    else:
        name = "x.tar"
        with tarfile.open(tmp_path / name, "w") as archive:
            info = tarfile.TarInfo("text")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info, io.BytesIO())
    printed = call(tmp_path, "unpack", name, "text", refuses=True)
    assert "a text in it is not a regular file; not unpacked" in printed
