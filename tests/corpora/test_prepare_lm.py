"""Text for language models: its command, its two steps, and a miniature of the archive."""

import gzip
import hashlib
import json
import shutil
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import pytest

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.corpora import binarise, download, prepare_lm
from diverse_mha.corpora.catalogue import CORPORA
from diverse_mha.corpora.corpus import SPLITS, Corpus, Job
from diverse_mha.corpora.pipeline import prepare
from diverse_mha.corpora.published import Member, PublishedFile, file_of
from diverse_mha.corpora.space import download_bytes, work_bytes

TEXTS = {
    "train": " = Title = \n\n a b <unk> \n" * 4,
    "valid": " a b \n\n",
    "test": " b a",  # no newline at the end, as happens
}


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


@pytest.fixture
def archive(tmp_path):
    """A zip of the inner structure of WikiText-103, and a member that wants to climb out."""
    path = tmp_path / "published" / "mini-v1.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("wikitext-103/", "")
        packed.writestr("../climbed.txt", "out")
        packed.writestr("wikitext-103/readme.txt", "more")
        for split, text in TEXTS.items():
            packed.writestr(f"wikitext-103/wiki.{split}.tokens", text)
    return path


@pytest.fixture
def wiki(archive):
    """The spec of that archive, served as a file."""
    file = PublishedFile(
        archive.name, urls=(archive.as_uri(),), checksum=sha256(archive.read_bytes())
    )
    return Corpus(
        name="mini",
        about="about",
        languages=("txt",),
        files={
            split: ((Member(file, f"wikitext-103/wiki.{split}.tokens", lines=lines),),)
            for split, lines in (("train", 12), ("valid", 2), ("test", 1))
        },
        tokens={"train": 4 * 9, "valid": 4, "test": 3},
    )


def without_checksum(corpus):
    """The same spec, of an archive of which only the address is known."""
    files = {
        split: ((replace(text, archive=PublishedFile(text.archive.name, text.archive.urls)),),)
        for split, ((text,),) in corpus.files.items()
    }
    return replace(corpus, files=files)


@pytest.fixture
def preprocess(monkeypatch):
    """Replace fairseq-preprocess; the list holds the commands that would have run."""
    commands = []

    def run(command, **_):
        commands.append(command)
        with open(command[command.index("--destdir") + 1] + "/dict.txt", "w") as file:
            file.write("a 2\nb 1\nmadeupword0000 0\n")
        return 0, ""

    monkeypatch.setattr(binarise, "run_to_end", run)
    return commands


def left_over(out):
    """Names in an output folder, if it is there, apart from the downloads."""
    return sorted(p.name for p in out.iterdir() if p.name != "download") if out.exists() else []


@pytest.mark.parametrize("way", ["from the folder", "from its address", "unpacked"])
def test_archive_becomes_text_and_data(wiki, archive, tmp_path, preprocess, capsys, way):
    if way == "unpacked":
        for split, text in TEXTS.items():
            (archive.parent / f"wiki.{split}.tokens").write_text(text)
        archive.unlink()
    local = None if way == "from its address" else archive.parent
    job = Job(wiki, tmp_path / "out dir", local=local)
    prepare(job)
    for split, text in TEXTS.items():
        made = (job.out / f"raw/{split}.txt").read_text()
        assert made == text + ("" if text.endswith("\n") else "\n")
    assert left_over(job.out) == ["bin", "raw"]
    assert left_over(job.out / "raw") == ["stamp.json", "test.txt", "train.txt", "valid.txt"]
    assert not list(tmp_path.rglob("climbed.txt"))
    made = json.loads((job.out / "bin/corpus.json").read_text())
    # By hand: "= Title =" and <unk> are 4 of the 6 words that train has four times over.
    assert made["corpus"] == "mini"
    assert made["unknown_words"] == {"train": 0.666667, "valid": 0.0, "test": 0.0}
    assert "--only-source" in preprocess[0] and str(job.out / "raw/test.txt") in preprocess[0]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[1/2] fetch: 12 train, 2 valid, 1 test lines; 36 train tokens")
    shares = "66.67% of train, 0.00% of valid, 0.00% of test"
    said = f"[2/2] binarise: 2 different words, besides <unk> ({shares}) and the line end"
    assert lines[1].startswith(said)
    shutil.rmtree(archive.parent)
    prepare(job)
    assert len(preprocess) == 1 and capsys.readouterr().out.count("(already done)") == 2


def test_wrong_checksum_is_one_line_and_leaves_nothing(wiki, archive, tmp_path):
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 1
    archive.write_bytes(data)
    for local in (archive.parent, None):
        with pytest.raises(UserError, match="is not the published file: its sha256 is") as error:
            prepare(Job(wiki, tmp_path / "out", local=local))
        assert "\n" not in str(error.value)
        assert left_over(tmp_path / "out") == []
    assert not list((tmp_path / "out/download").iterdir())


def test_cut_off_archive_is_one_line_and_leaves_nothing(wiki, archive, tmp_path):
    archive.write_bytes(archive.read_bytes()[:-40])
    job = Job(wiki, tmp_path / "out", local=archive.parent)
    with pytest.raises(UserError, match="is not the published file"):
        prepare(job)
    # Whatever the checksum says, damage is noticed when unpacking.
    cut = without_checksum(wiki)
    with pytest.raises(
        UserError, match=r"mini-v1.zip is damaged or cut off \(.*\); fetch it again"
    ):
        prepare(replace(job, corpus=cut))
    assert left_over(job.out) == []


def test_archive_without_a_member_is_one_line(wiki, archive, tmp_path):
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("wikitext-103/wiki.train.tokens", TEXTS["train"])
    job = Job(without_checksum(wiki), tmp_path / "out", local=archive.parent)
    with pytest.raises(UserError, match="has no wikitext-103/wiki.valid.tokens;"):
        prepare(job)
    assert left_over(tmp_path / "out") == []


@pytest.mark.parametrize("what", ["lines", "tokens"])
def test_text_of_another_length_is_refused(wiki, archive, tmp_path, what):
    if what == "lines":
        ((text,),) = wiki.files["valid"]
        files = {**wiki.files, "valid": ((replace(text, lines=3),),)}
        corpus, message = replace(wiki, files=files), "zip has 2 sentences, expected 3"
    else:
        corpus = replace(wiki, tokens={"train": 35})
        message = "has 36 tokens, expected 35: not the published"
    with pytest.raises(UserError, match=message):
        prepare(Job(corpus, tmp_path / "out", local=archive.parent))
    assert left_over(tmp_path / "out") == []


def test_folder_without_archive_names_it(wiki, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        UserError, match="empty has no mini-v1.zip; put it there, or leave out --from"
    ):
        prepare(Job(wiki, tmp_path / "out", local=tmp_path / "empty"))
    with pytest.raises(UserError, match="gone, given by --from, is not a folder"):
        prepare(Job(wiki, tmp_path / "out", local=tmp_path / "gone"))


@pytest.fixture
def plain(tmp_path):
    """A spec of three published text files, and the folder that has them."""
    folder = tmp_path / "published"
    folder.mkdir()
    files = {}
    for split, text in TEXTS.items():
        data = text.encode()
        path = folder / f"ptb.{split}.txt"
        path.write_bytes(data)
        also = (f"{path.name}.gz", path.name.removeprefix("ptb."), f"{split}.txt.gz")
        file = PublishedFile(path.name, (path.as_uri(),), text_checksum=sha256(data), also=also)
        files[split] = ((file,),)
    return Corpus("small", "about", ("txt",), files=files), folder


@pytest.mark.parametrize("names", ["ptb.{}.txt", "{}.txt", "{}.txt.gz"])
def test_local_files_may_be_packed_or_renamed(plain, tmp_path, preprocess, names):
    corpus, folder = plain
    for split, text in TEXTS.items():
        (folder / f"ptb.{split}.txt").unlink()
        data = text.encode()
        (folder / names.format(split)).write_bytes(
            gzip.compress(data) if names.endswith("gz") else data
        )
    prepare(Job(corpus, tmp_path / "out", local=folder))
    assert (tmp_path / "out/raw/train.txt").read_text() == TEXTS["train"]


def test_a_dry_run_finds_what_a_folder_has_under_another_name(tmp_path, capsys):
    (tmp_path / "train.txt.gz").write_bytes(b"")
    words = ["ptb", "--from", f"{tmp_path}", "--out", f"{tmp_path / 'out'}", "--dry-run"]
    prepare_lm.main(words)
    told = capsys.readouterr().out
    assert f"from {tmp_path / 'train.txt.gz'}, which is there" in told
    assert f"from {tmp_path / 'ptb.valid.txt'}, which IS MISSING" in told
    assert not (tmp_path / "out").exists()


def test_a_dry_run_finds_what_a_folder_has_unpacked(tmp_path, capsys):
    for split in ("train", "valid", "test"):
        (tmp_path / f"wiki.{split}.tokens").write_bytes(b"")
    words = ["wikitext103", "--from", f"{tmp_path}", "--out", f"{tmp_path / 'out'}"]
    prepare_lm.main([*words, "--dry-run"])
    told = capsys.readouterr().out
    assert f"from {tmp_path / 'wiki.train.tokens'}, which is there" in told
    assert "MISSING" not in told and ".zip" not in told
    with pytest.raises(UserError, match="the train text .*wiki.train.tokens.* is empty"):
        prepare_lm.main([*words, "--unchecked"])


def test_files_are_fetched_from_their_addresses(plain, tmp_path, preprocess):
    corpus, _ = plain
    prepare(Job(corpus, tmp_path / "out"))
    assert (tmp_path / "out/raw/test.txt").read_text() == TEXTS["test"] + "\n"


def test_another_address_of_the_same_files_makes_nothing_anew(plain, tmp_path, preprocess, capsys):
    corpus, _ = plain
    prepare(Job(corpus, tmp_path / "out"))
    moved = corpus.with_sides(lambda _, side: replace(side, urls=(*side.urls, "https://x")))
    prepare(Job(moved, tmp_path / "out"))
    assert capsys.readouterr().out.count("(already done)") == 2


def test_missing_and_wrong_files_are_named(plain, tmp_path):
    corpus, folder = plain
    job = Job(corpus, tmp_path / "out", local=folder)
    (folder / "ptb.test.txt").write_text("b b")
    with pytest.raises(UserError, match="ptb.test.txt is not the published text"):
        prepare(job)
    (folder / "ptb.test.txt").unlink()
    with pytest.raises(UserError, match="has no ptb.test.txt or ptb.test.txt.gz or test.txt"):
        prepare(job)
    (folder / "ptb.valid.txt").unlink()
    with pytest.raises(UserError, match="has no ptb.valid.txt or .*, no ptb.test.txt .* put them"):
        prepare(job)
    assert left_over(job.out) == []


def test_full_disk_is_refused_before_anything_is_fetched(plain, tmp_path, monkeypatch):
    corpus, folder = plain
    usage = SimpleNamespace(free=5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    job = Job(replace(corpus, text=1_000_000), tmp_path / "out", local=folder)
    with pytest.raises(UserError, match="about 6 MB are needed and 5 MB are free"):
        prepare(job)
    assert left_over(job.out) == []


def test_what_is_downloaded_already_needs_no_room(plain, tmp_path, monkeypatch, preprocess):
    corpus, _ = plain
    usage = SimpleNamespace(free=5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    job = Job(replace(corpus, text=1_000_000), tmp_path / "out")
    (job.out / "download").mkdir(parents=True)
    (job.out / "download" / "ptb.train.txt.part").write_bytes(b"x" * 1_000_000)
    with pytest.raises(UserError, match="cannot download"):  # got past the disk
        monkeypatch.setattr(download, "_try_address", lambda *_: "off")
        prepare(job)


@pytest.fixture
def own(tmp_path):
    """A folder with text of one's own."""
    for split, text in TEXTS.items():
        (tmp_path / f"{split}.txt").write_text(text)
    return tmp_path


def test_own_text_that_changed_is_prepared_anew(own, preprocess, capsys):
    arguments = ["own", "--from", f"{own}", "--out", f"{own / 'x'}", "--min-count", "3"]
    prepare_lm.main(arguments)
    assert " --thresholdsrc 3 " in " ".join(preprocess[0])
    prepare_lm.main(arguments)
    assert capsys.readouterr().out.count("(already done)") == 2
    (own / "test.txt").write_text("c\n")
    with pytest.raises(UserError, match=r"x holds another .*own; raw/ has other files\); give an"):
        prepare_lm.main(arguments)
    prepare_lm.main([*arguments, "--force"])
    out = capsys.readouterr().out
    assert "(already done)" not in out
    assert out.splitlines()[-1].startswith(f"ready: fairseq-train {own / 'x/bin'} --task")
    assert (own / "x/raw/test.txt").read_text() == "c\n"
    prepare_lm.main([*arguments[:-2], "--force"])  # another limit: only binarised anew
    assert capsys.readouterr().out.count("(already done)") == 1


def test_a_limit_that_leaves_no_words_is_refused(own):
    arguments = ["own", "--from", f"{own}", "--out", f"{own / 'x'}", "--min-count", "9"]
    with pytest.raises(UserError, match="--min-count 9: no word of the training text comes as"):
        prepare_lm.main(arguments)
    assert left_over(own / "x") == ["raw"]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", r"the valid text \(.*valid.txt\) is empty"),
        (b"\n \n", r"the valid text \(.*valid.txt\) is empty"),
        (b"a <unk>\nb </s>\n", "the valid text has </s> in line 2, .* take it out"),
        (b"<s> a\n", "the valid text has <s> in line 1, .* take it out"),
        (b"a <pad>\n", "the valid text has <pad> in line 1, .* take it out"),
        (b"\xff\xfe", r"valid.txt is not UTF-8 text \(.*\); convert it"),
    ],
)
def test_own_text_that_cannot_be_used_is_named(own, content, message):
    (own / "valid.txt").write_bytes(content)
    with pytest.raises(UserError, match=message):
        prepare_lm.main(["own", "--from", f"{own}", "--out", f"{own / 'x'}"])
    assert left_over(own / "x") == []


def test_line_ends_that_are_words_are_warned_of(own, preprocess, capsys):
    for split, content in {"train": "a <eos>\n\nb", "test": "a <eos>\n\n"}.items():
        (own / f"{split}.txt").write_text(content)
    prepare_lm.main(["own", "--from", f"{own}", "--out", f"{own / 'x'}"])
    (said,) = capsys.readouterr().err.splitlines()  # half of the lines of train are not most
    assert said.startswith("warning: 1 lines of the test text end in <eos>; ")


def test_a_carriage_return_ends_no_line(own, preprocess, capsys):
    r"""Only \n and \r\n do. fairseq reads in Python's text mode, where a lone \r would, too."""
    (own / "train.txt").write_bytes(b"a\rb\r\nc\n\rd")
    prepare_lm.main(["own", "--from", f"{own}", "--out", f"{own / 'x'}"])
    assert "fetch: 3 train, 2 valid, 1 test lines; 7 train tokens" in capsys.readouterr().out
    with open(own / "x/raw/train.txt") as file:
        assert list(file) == ["a b\n", "c\n", " d\n"]


def test_failing_preprocess_is_one_line_and_leaves_no_bin(own, monkeypatch):
    failed = 1, "Traceback\n  ...\nMemoryError\n"
    monkeypatch.setattr(binarise, "run_to_end", lambda command, **_: failed)
    with pytest.raises(UserError, match=r"fairseq-preprocess failed \(exit code 1\): MemoryError"):
        prepare_lm.main(["own", "--from", f"{own}", "--out", f"{own / 'x'}"])
    assert left_over(own / "x") == ["raw"]


@pytest.mark.parametrize("arguments", [["--help"], ["ptb", "--help"], ["own", "--help"]])
def test_help_ends_well(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        prepare_lm.main(arguments)
    assert end.value.code == 0
    assert "bin/" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("", "required: CORPUS"),
        ("wikitext2 --out o", "invalid choice: 'wikitext2'"),
        (
            "ptb --out o --workers 0",
            "--workers: 0 is not a whole number from 1 up; see diverse-mha prepare-lm ptb --help",
        ),
        ("ptb --out o --min-count 2", "unrecognized arguments: --min-count 2"),
        ("own --out o", "required: --from"),
        ("own --out o --from f --min-count x", "--min-count: x is not a whole number from 1 up"),
    ],
)
def test_wrong_options_are_one_line_and_code_2(arguments, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        run_cli(lambda: prepare_lm.main(arguments.split()))
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["ptb", "wikitext103"])
def test_specs_say_all_that_is_needed(name):
    corpus = CORPORA[name]
    assert corpus.running_text and tuple(corpus.files) == SPLITS == tuple(corpus.tokens)
    for _, text in corpus.sides():
        file = file_of(text)
        assert file.known and len(file.urls) > 1
        assert all(url.endswith(file.name) for url in file.urls) and text.lines
    assert download_bytes(corpus) + work_bytes(corpus) > 10_000_000
