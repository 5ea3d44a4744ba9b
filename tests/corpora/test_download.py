"""Fetching files, from a folder and from a server that lives in this process."""

import errno
import gzip
import hashlib
import http.server
import threading
import urllib.request

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import download as module
from diverse_mha.corpora.download import download, find_local, require_local
from diverse_mha.corpora.published import PublishedFile, unchecked, verify
from diverse_mha.corpora.text import read_lines

DATA = bytes(range(256)) * 1200  # longer than a block of the transfer


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves ``data`` under every path; notes the requests; can cut off, ignore ranges, refuse."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.data, self.cuts, self.ranges, self.requests = DATA, [], True, []

    def url(self, name="file"):
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request as the server says."""

    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        server.requests.append((self.path, wanted))
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        if self.path == "/missing":
            self.send_error(404)
            return
        if wanted and server.ranges and start >= len(server.data):
            self.send_error(416)
            return
        self.send_response(206 if wanted and server.ranges else 200)
        body = server.data[start if server.ranges else 0 :]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.cuts.pop(0)] if server.cuts else body)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def published(*urls, data=DATA):
    return PublishedFile("file", urls, size=len(data), checksum=sha256(data))


def test_download_is_verified_and_not_repeated(server, tmp_path):
    file = published(server.url())
    path = download(file, tmp_path / "new" / "folder")
    assert path.read_bytes() == DATA and path.name == "file"
    assert download(file, path.parent) == path
    assert server.requests == [("/file", None)]
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_broken_connection_goes_on_where_it_stopped(server, tmp_path):
    server.cuts = [100_000, 50_000]
    assert download(published(server.url()), tmp_path).read_bytes() == DATA
    assert [wanted for _, wanted in server.requests] == [None, "bytes=100000-", "bytes=150000-"]


def test_next_run_goes_on_where_the_last_one_gave_up(server, tmp_path):
    server.cuts = [10, 10, 10]
    with pytest.raises(UserError, match=r"broke \(after 30 of 307,200 bytes\).*to go on"):
        download(published(server.url()), tmp_path)
    assert (tmp_path / "file.part").stat().st_size == 30 and not (tmp_path / "file").exists()
    assert download(published(server.url()), tmp_path).read_bytes() == DATA
    assert server.requests[-1] == ("/file", "bytes=30-")


@pytest.mark.parametrize("number", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN])
def test_a_network_that_goes_is_a_connection_that_broke(server, tmp_path, monkeypatch, number):
    real, calls = urllib.request.urlopen, []

    def urlopen(*args, **more):
        calls.append(args)
        response = real(*args, **more)
        if len(calls) == 1:
            monkeypatch.setattr(response, "read", goes)
        return response

    def goes(size):
        raise OSError(number, "gone")

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    assert download(published(server.url()), tmp_path).read_bytes() == DATA
    assert len(calls) == 2


def test_a_full_disk_is_no_matter_of_the_network(server, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(urllib.request, "urlopen", full)
    with pytest.raises(OSError, match="No space left"):
        download(published(server.url()), tmp_path)


def test_server_without_ranges_sends_all_of_it_again(server, tmp_path):
    server.ranges = False
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    assert download(published(server.url()), tmp_path).read_bytes() == DATA


def test_whole_part_needs_no_more_bytes(server, tmp_path):
    (tmp_path / "file.part").write_bytes(DATA)
    assert download(published(server.url()), tmp_path).read_bytes() == DATA


def test_part_of_another_version_is_thrown_away(server, tmp_path):
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    assert download(published(server.url()), tmp_path).read_bytes() == DATA
    assert [wanted for _, wanted in server.requests] == ["bytes=1000-", None]


def test_wrong_checksum_is_never_taken(server, tmp_path):
    expected = published(server.url(), data=DATA[::-1])
    with pytest.raises(UserError, match="is not the published file: its sha256 is") as info:
        download(expected, tmp_path)
    assert server.url() in str(info.value) and "--from" in str(info.value)
    assert "\n" not in str(info.value)
    assert list(tmp_path.iterdir()) == []
    assert len(server.requests) == 1


def test_a_kept_file_is_checked_like_any_other(server, tmp_path):
    """A run that checks nothing, or a hand, may have left another file under the name."""
    server.data = b"<html>no such archive</html>"
    kept = download(unchecked(published(server.url())), tmp_path)
    server.data = DATA
    with pytest.raises(UserError, match="file has 28 bytes, expected 307,200; delete it, and"):
        download(published(server.url()), tmp_path)
    assert kept.read_bytes().startswith(b"<html>")  # the user's, who may want it
    kept.unlink()
    assert download(published(server.url()), tmp_path).read_bytes() == DATA


def test_wrong_size_names_both_sizes(server, tmp_path):
    with pytest.raises(UserError, match="has 307,200 bytes, expected 7"):
        download(PublishedFile("file", (server.url(),), size=7), tmp_path)


def test_mirrors_are_tried_in_turn(server, tmp_path):
    dead = "http://127.0.0.1:9/file"
    file = published(dead, server.url("missing"), server.url())
    assert download(file, tmp_path).read_bytes() == DATA
    with pytest.raises(UserError, match="cannot reach the server.*answers 404"):
        download(published(dead, server.url("missing")), tmp_path / "other")


TEXT = b"eins\nzwei\n"


def text_file(**known):
    return PublishedFile("train.de.gz", **known)


@pytest.mark.parametrize("name", ["train.de.gz", "train.de"])
def test_folder_may_hold_the_packed_or_the_plain_file(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(TEXT) if name.endswith(".gz") else TEXT)
    found = find_local(text_file(text_checksum=sha256(TEXT), lines=2), tmp_path)
    assert found == tmp_path / name and list(read_lines(found)) == ["eins", "zwei"]


def test_missing_folder_and_missing_file_are_named(tmp_path):
    with pytest.raises(UserError, match="nowhere, given by --from, is not a folder"):
        require_local([text_file()], tmp_path / "nowhere")
    with pytest.raises(UserError, match="has no train.de.gz or train.de; put it there"):
        require_local([text_file()], tmp_path)


def test_unpacked_archive_cannot_be_checked_and_is_not_taken(tmp_path):
    (tmp_path / "text.tar").write_bytes(b"anything")
    with pytest.raises(UserError, match="has no text.tar.gz; put it there"):
        require_local([PublishedFile("text.tar.gz", checksum="md5:0")], tmp_path)


def test_text_of_another_version_is_refused(tmp_path):
    path = tmp_path / "train.de.gz"
    path.write_bytes(gzip.compress(TEXT))
    with pytest.raises(UserError, match=r"train.de.gz has 2 lines, expected 29,000"):
        verify(text_file(lines=29000), path)
    with pytest.raises(UserError, match="train.de.gz is not the published text: its md5 is"):
        verify(text_file(text_checksum="md5:0"), path)


@pytest.mark.parametrize("cut", [5, -4])
def test_cut_off_gzip_is_named(tmp_path, cut):
    path = tmp_path / "train.de.gz"
    path.write_bytes(gzip.compress(TEXT)[:cut])
    with pytest.raises(UserError, match="train.de.gz is damaged or cut off"):
        verify(text_file(lines=2), path)
