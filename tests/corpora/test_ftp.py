"""Downloads over FTP, from a small server that lives in this process."""

import hashlib
import socket
import socketserver
import threading

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import download as module
from diverse_mha.corpora.download import download
from diverse_mha.corpora.published import PublishedFile

DATA = bytes(range(256)) * 1200


class Server(socketserver.ThreadingTCPServer):
    """Serves DATA as /folder/file to user "name"; can cut off, and refuse to begin midway."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Session)
        self.cuts, self.rests, self.starts, self.logins = [], True, [], []

    def url(self, path="folder/file"):
        return f"ftp://name:secret@127.0.0.1:{self.server_address[1]}/{path}"


class Session(socketserver.StreamRequestHandler):
    """One control connection."""

    def handle(self):
        self.say("220 ready")
        start, passive = 0, None
        for line in self.rfile:
            verb, _, value = line.decode().strip().partition(" ")
            if verb in ("USER", "PASS"):
                self.server.logins.append(value)
                self.say("331 password" if verb == "USER" else "230 in")
            elif verb == "TYPE":
                self.say("200 binary")
            elif verb in ("SIZE", "RETR") and value != "folder/file":
                self.say("550 no such file")
            elif verb == "SIZE":
                self.say(f"213 {len(DATA)}")
            elif verb in ("PASV", "EPSV"):
                passive = socket.create_server(("127.0.0.1", 0))
                port = passive.getsockname()[1]
                where = f"127,0,0,1,{port >> 8},{port & 255}" if verb == "PASV" else f"|||{port}|"
                self.say(f"{227 if verb == 'PASV' else 229} here ({where})")
            elif verb == "REST" and self.server.rests:
                start = int(value)
                self.say("350 from there")
            elif verb == "RETR":
                self.server.starts.append(start)
                body = DATA[start:]
                connection, _ = passive.accept()
                self.say("150 here it comes")
                connection.sendall(body[: self.server.cuts.pop(0)] if self.server.cuts else body)
                connection.close()
                passive.close()
                self.say("226 done")
                start = 0
            else:
                self.say("502 not here")

    def say(self, line):
        self.wfile.write(f"{line}\r\n".encode())


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.0)
    server = Server()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def published(*urls):
    checksum = "sha256:" + hashlib.sha256(DATA).hexdigest()
    return PublishedFile("file", urls, size=len(DATA), checksum=checksum)


def test_file_is_fetched_with_user_and_password(server, tmp_path):
    assert download(published(server.url()), tmp_path).read_bytes() == DATA
    assert server.logins == ["name", "secret"] and server.starts == [0]


def test_broken_transfer_goes_on_where_it_stopped(server, tmp_path):
    server.cuts = [100_000, 50_000]
    assert download(published(server.url()), tmp_path).read_bytes() == DATA
    assert server.starts == [0, 100_000, 150_000]


def test_server_that_cannot_begin_midway_sends_all_again(server, tmp_path):
    server.cuts, server.rests = [100_000], False
    assert download(published(server.url()), tmp_path).read_bytes() == DATA
    assert server.starts == [0, 0]


def test_whole_part_needs_no_more_bytes(server, tmp_path):
    (tmp_path / "file.part").write_bytes(DATA)
    assert download(published(server.url()), tmp_path).read_bytes() == DATA


def test_next_address_is_tried(server, tmp_path):
    dead, nowhere = "ftp://127.0.0.1:9/file", "ftp://no-such-host.invalid/file"
    file = published(dead, nowhere, server.url("folder/other"), server.url())
    assert download(file, tmp_path).read_bytes() == DATA
    with pytest.raises(UserError, match="cannot reach the server .*550 no such file") as info:
        download(published(server.url("folder/other")), tmp_path / "new")
    assert "\n" not in str(info.value)
