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
    """Serves DATA as /folder/file to user "name"; can cut off."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Session)
        self.cuts, self.retrieved, self.logins = [], 0, []

    def url(self, path="folder/file"):
        return f"ftp://name:secret@127.0.0.1:{self.server_address[1]}/{path}"


class Session(socketserver.StreamRequestHandler):
    """One control connection."""

    def handle(self):
        self.say("220 ready")
        passive = None
        for line in self.rfile:
            verb, _, value = line.decode().strip().partition(" ")
            if verb in ("USER", "PASS"):
                self.server.logins.append(value)
                self.say("331 password" if verb == "USER" else "230 in")
            elif verb == "TYPE":
                self.say("200 binary")
            elif verb == "CWD" and value == "folder":
                self.say("250 there")
            elif verb == "RETR" and value != "file":
                self.say("550 no such file")
            elif verb in ("PASV", "EPSV"):
                passive = socket.create_server(("127.0.0.1", 0))
                port = passive.getsockname()[1]
                where = f"127,0,0,1,{port >> 8},{port & 255}" if verb == "PASV" else f"|||{port}|"
                self.say(f"{227 if verb == 'PASV' else 229} here ({where})")
            elif verb == "RETR":
                self.server.retrieved += 1
                connection, _ = passive.accept()
                self.say("150 here it comes")
                connection.sendall(DATA[: self.server.cuts.pop(0)] if self.server.cuts else DATA)
                connection.close()
                passive.close()
                self.say("226 done")
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
    assert server.logins[:2] == ["name", "secret"] and server.retrieved == 1


def test_broken_transfer_begins_anew(server, tmp_path):
    server.cuts = [100_000, 50_000]
    assert download(published(server.url()), tmp_path).read_bytes() == DATA
    assert server.retrieved == 3


def test_whole_part_needs_no_more_bytes(server, tmp_path):
    (tmp_path / "file.part").write_bytes(DATA)
    assert download(published(server.url()), tmp_path).read_bytes() == DATA


def test_next_address_is_tried(server, tmp_path):
    dead, nowhere = "ftp://127.0.0.1:9/file", "ftp://no-such-host.invalid/file"
    file = published(dead, nowhere, server.url("folder/other"), server.url())
    assert download(file, tmp_path).read_bytes() == DATA
    with pytest.raises(UserError, match="cannot reach the server") as info:
        download(published(server.url("folder/other")), tmp_path / "new")
    assert "\n" not in str(info.value)
