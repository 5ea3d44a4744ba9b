"""What a server sends is checked before it is unpacked."""

import functools
import hashlib
import http.server
import io
import tarfile
import threading

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import archives, download, pipeline
from diverse_mha.corpora.corpus import Corpus
from diverse_mha.corpora.pipeline import Job, prepare
from diverse_mha.corpora.published import Member, PublishedFile

SPLITS = ("train", "valid", "test")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A web server over a folder, and its address."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(download, "PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            """Say nothing."""

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}/corpus.tar.gz"
        server.shutdown()


def write(path, marker):
    """Write the archive of a corpus, with an entry that leaves a marker where it is unpacked."""
    with tarfile.open(path, "w:gz") as archive:
        names = [f"{split}.{language}" for split in SPLITS for language in ("de", "en")]
        for name in [*names, *([marker] if marker else [])]:
            content = f"text of {name}\n".encode() * 3
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def job(address, out, **checks):
    file = PublishedFile("corpus.tar.gz", (address,), **checks)
    sides = {s: ((Member(file, f"{s}.de"), Member(file, f"{s}.en")),) for s in SPLITS}
    return Job(Corpus("tiny", "a tiny corpus", ("de", "en"), sides, merges=5), out=out)


@pytest.mark.parametrize("marker", ["../marker", "marker"])
@pytest.mark.parametrize("check", ["checksum", "size"])
def test_another_archive_than_the_published_one_is_not_unpacked(
    site, tmp_path, monkeypatch, marker, check
):
    folder, address = site
    write(folder / "corpus.tar.gz", None)
    data = (folder / "corpus.tar.gz").read_bytes()
    known = {"checksum": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}
    write(folder / "corpus.tar.gz", marker)
    opened = []
    monkeypatch.setattr(archives, "unpack", lambda *args: opened.append(args))
    with pytest.raises(UserError, match="cannot download corpus.tar.gz .*expected") as error:
        prepare(job(address, tmp_path / "out", **{check: known[check]}))
    assert "\n" not in str(error.value)
    assert not opened
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left == [folder / "corpus.tar.gz"], "neither a marker nor a file of the download"


def test_the_published_archive_is_unpacked(site, tmp_path, monkeypatch):
    """So the refusal above is not for another reason."""
    folder, address = site
    write(folder / "corpus.tar.gz", None)
    data = (folder / "corpus.tar.gz").read_bytes()
    checksum = f"sha256:{hashlib.sha256(data).hexdigest()}"
    whole = job(address, tmp_path / "out", checksum=checksum)
    steps = pipeline.steps_of
    monkeypatch.setattr(pipeline, "steps_of", lambda job: steps(job)[:1])
    prepare(whole)
    assert (tmp_path / "out/raw/train.de").read_text() == "text of train.de\n" * 3
