"""The five steps together, with a stand-in for fairseq-preprocess.

The real one runs in tests/integration.
"""

import gzip
import hashlib
import json
import os
import signal
from dataclasses import replace

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import binarise, pipeline
from diverse_mha.corpora.catalogue import CORPORA, own_corpus
from diverse_mha.corpora.corpus import SPLITS, Corpus, Job
from diverse_mha.corpora.pipeline import prepare
from diverse_mha.corpora.published import Member, PublishedFile

TEXTS = {
    "train.de": "Ein Mann läuft.\nZwei Männer laufen.\nNur hier\n" * 10,
    "train.en": "A man runs.\nTwo men run.\n" + "far too long " * 9 + "\n",
    "valid.de": "Ein Hund läuft.\n",
    "valid.en": "A dog runs.\n",
    "test.de": "Zwei Hunde laufen.",  # no newline at the end, as happens
    "test.en": "Two dogs' owners run.",
}
TEXTS["train.en"] *= 10


@pytest.fixture
def corpus(tmp_path):
    """A small published corpus in tmp_path/published, and its spec."""
    folder = tmp_path / "published"
    folder.mkdir()

    def publish(name):
        data = TEXTS[name].encode()
        (folder / f"{name}.gz").write_bytes(gzip.compress(data))
        return PublishedFile(
            f"{name}.gz", text_checksum="sha256:" + hashlib.sha256(data).hexdigest()
        )

    files = {split: ((publish(f"{split}.de"), publish(f"{split}.en")),) for split in SPLITS}
    return Corpus("tiny", "about", ("de", "en"), files=files, max_ratio=3.0, merges=30)


@pytest.fixture
def preprocess(monkeypatch):
    """Replace fairseq-preprocess; the list holds the commands that would have run."""
    commands = []

    def run(command, **_):
        commands.append(command)
        folder = command[command.index("--destdir") + 1]
        for language in ("de", "en"):
            with open(f"{folder}/dict.{language}.txt", "w") as file:
                file.write("a 2\nb 1\n")
        return 0, ""

    monkeypatch.setattr(binarise, "run_to_end", run)
    return commands


@pytest.fixture
def job(corpus, tmp_path):
    return Job(corpus, tmp_path / "out dir", local=tmp_path / "published")


def changed(job, workers=1, **options):
    """Return a job with other options."""
    return replace(job, corpus=replace(job.corpus, **options), workers=workers, force=True)


def test_folders_hold_what_the_docstring_says(job, preprocess, capsys):
    prepare(job)
    out = job.out
    assert (out / "raw/test.en").read_text() == TEXTS["test.en"] + "\n"
    assert (out / "tok/test.en").read_text() == "Two dogs &apos; owners run .\n"
    assert len((out / "clean/train.de").read_text().splitlines()) == 20
    assert "far" not in (out / "clean/train.en").read_text()
    assert "far" in (out / "tok/train.en").read_text()
    segmented = (out / "bpe/valid.de").read_text(encoding="utf-8")
    assert "@@" in segmented and segmented.replace("@@ ", "") == "Ein Hund läuft .\n"
    made = json.loads((out / "bin/corpus.json").read_text())
    assert made["source"] == "de" and made["post_process"] == "subword_nmt"
    assert preprocess[0][1:3] == ["-m", "fairseq_cli.preprocess"]
    assert "--joined-dictionary" in preprocess[0]
    assert str(out / "bpe" / "test") in preprocess[0]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[1/5] fetch: 30 train, 1 valid, 1 test pairs")
    assert lines[2].startswith("[3/5] filter: 20 of 30 train pairs kept; dropped: 10 ")
    assert lines[4].startswith("[5/5] binarise: joined dictionary of 2 types")


def test_second_run_does_nothing_and_needs_no_source(job, preprocess, capsys, tmp_path):
    prepare(job)
    capsys.readouterr()
    (tmp_path / "published").rename(tmp_path / "gone")
    prepare(job)
    assert len(preprocess) == 1
    assert [line.endswith("(already done)") for line in capsys.readouterr().out.splitlines()] == (
        [True] * 5
    )


@pytest.mark.parametrize(
    "options, redone",
    [
        ({"joined": False}, 1),
        ({"merges": 31}, 2),
        ({"vocabulary_threshold": 2}, 2),
        ({"subwords": "sentencepiece", "merges": 60}, 2),
        ({"lowercase": True}, 4),
        ({"workers": 2}, 0),
    ],
    ids=lambda value: str(value),
)
def test_changed_options_redo_what_depends_on_them(job, preprocess, capsys, options, redone):
    prepare(job)
    capsys.readouterr()
    prepare(changed(job, **options))
    done = [line.endswith("(already done)") for line in capsys.readouterr().out.splitlines()]
    assert done == [True] * (5 - redone) + [False] * redone


def test_failing_preprocess_is_one_line_and_leaves_no_bin(job, monkeypatch):
    def fail(command, **_):
        return 1, "Traceback\n  ...\nMemoryError\n"

    monkeypatch.setattr(binarise, "run_to_end", fail)
    with pytest.raises(UserError, match=r"fairseq-preprocess failed \(exit code 1\): MemoryError"):
        prepare(job)
    assert not (job.out / "bin").exists() and (job.out / "bpe").exists()


def test_sigterm_ends_it_in_order(job, monkeypatch, request):
    """So that fairseq-preprocess is ended, which would keep the lock and write on."""
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("by the process' own handler"))
    request.addfinalizer(lambda: signal.signal(signal.SIGTERM, before))
    told = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)  # noqa: E731
    monkeypatch.setattr(binarise, "run_to_end", told)
    with pytest.raises(SystemExit) as end:
        prepare(job)
    assert end.value.code == 128 + signal.SIGTERM
    assert sorted(path.name for path in job.out.iterdir()) == ["bpe", "clean", "raw", "tok"]


def test_wrong_file_stops_before_anything_is_unpacked(job, tmp_path):
    (tmp_path / "published/test.en.gz").write_bytes(gzip.compress(b"something else\n"))
    with pytest.raises(UserError, match="test.en.gz is not the published text"):
        prepare(job)
    assert not list(job.out.glob("raw*/*"))


def test_threshold_applies_to_training_text_too(job, preprocess):
    """Only the full stop occurs 20 times, so every word falls apart into letters."""
    prepare(changed(job, vocabulary_threshold=20))
    first = (job.out / "bpe/train.de").read_text(encoding="utf-8").partition("\n")[0]
    assert first == "E@@ i@@ n M@@ a@@ n@@ n l@@ ä@@ u@@ f@@ t ."


@pytest.mark.parametrize("joint, number", [(True, "30"), (False, "21 and 10")])
def test_merges_that_were_not_learned_are_not_claimed(job, preprocess, capsys, joint, number):
    prepare(changed(job, merges=900, joint_subwords=joint))
    side = "" if joint else " a side"
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("[4/5]"))
    assert f" {number} BPE merges{side} (of 900 asked for: no pair occurs twice); " in line
    codes = [path.read_text().splitlines()[1:] for path in sorted(job.out.glob("bpe/codes*"))]
    assert " and ".join(str(len(merges)) for merges in codes) == number


def test_lines_too_long_for_fairseq_are_warned_of(corpus, tmp_path, preprocess, capsys):
    """The line end takes a position, too."""
    for name, content in TEXTS.items():
        (tmp_path / name).write_text(content)
    for split, length in {"valid": 1023, "test": 1024}.items():
        (tmp_path / f"{split}.de").write_text(". " * length)
    own = replace(own_corpus("de", "en"), merges=10)
    prepare(Job(own, tmp_path / "out", local=tmp_path))
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("warning: test.de: 1 lines of 1,024 subwords or more, which")


def test_letters_of_a_script_without_spaces_count_and_rules_are_named(
    tmp_path, preprocess, capsys, monkeypatch
):
    """One Japanese line was one word, so that longer translations were dropped silently."""
    for split in SPLITS:
        (tmp_path / f"{split}.ja").write_text("今日はとても良い天気です。\n" * 3 + "は\n\n")
        english = "The weather is really very nice in this town today , I think ."
        (tmp_path / f"{split}.en").write_text(f"{english}\n" * 3 + f"{english} " * 2 + "\nNo\n")
    monkeypatch.setattr(pipeline, "_binarise", lambda job, tmp: "")
    prepare(Job(replace(own_corpus("ja", "en"), merges=10), tmp_path / "out", local=tmp_path))
    (line,) = (x for x in capsys.readouterr().out.splitlines() if x.startswith("[3/5]"))
    rules = "3 of 5 train pairs kept; dropped: 1 with a ratio above 9, 1 empty"
    assert line.startswith(f"[3/5] filter: {rules}")


def test_parts_of_a_split_are_joined_in_order(corpus, tmp_path, preprocess):
    files = dict(corpus.files)
    files["train"] = corpus.files["valid"] + corpus.files["train"] + corpus.files["test"]
    several = Corpus("several", "about", ("de", "en"), files=files, merges=10)
    job = Job(several, tmp_path / "out", local=tmp_path / "published")
    prepare(job)
    lines = (tmp_path / "out/raw/train.en").read_text().splitlines()
    assert lines[0] == "A dog runs." and lines[-1] == "Two dogs' owners run." and len(lines) == 32


def test_a_carriage_return_parts_no_pairs(tmp_path, preprocess):
    """Neither within a line of one side nor at the end of each."""
    for name, content in TEXTS.items():
        if name.endswith(".de"):
            content = content.replace(" ", "\r", 1).replace("\n", "\r\n")
        (tmp_path / name).write_bytes(content.encode())
    job = Job(own_corpus("de", "en"), tmp_path / "out", local=tmp_path)
    prepare(changed(job, merges=10))
    for folder, lines in (("raw", 30), ("tok", 30), ("clean", 20), ("bpe", 20)):
        for language in ("de", "en"):
            with open(job.out / folder / f"train.{language}", encoding="utf-8") as file:
                assert sum(1 for _ in file) == lines  # by Python's habit, which is fairseq's
    assert (job.out / "raw/train.de").read_bytes().startswith("Ein Mann läuft.\n".encode())


@pytest.mark.parametrize("corpus", CORPORA.values(), ids=CORPORA)
def test_specs_say_all_that_is_needed(corpus):
    assert CORPORA[corpus.name] is corpus
    if corpus.generated:
        return
    train = corpus.segmented or corpus.files
    assert corpus.valid_every or tuple(corpus.segmented or corpus.files) == SPLITS
    assert train["train"] and corpus.files["test"]
    for file in corpus.published():
        # Only the sets of the UN have no checksum; there, the numbers of lines are known.
        assert file.known is (file.name != "UNv1.0.testsets.tar.gz"), file.name
        assert file.urls and all(url.startswith(("http", "ftp")) for url in file.urls)
        assert all(url.endswith(file.name) for url in file.urls if "drive" not in url)
    for split, side in corpus.sides():
        if isinstance(side, Member) and side.archive.checksum is None:
            assert side.lines, (split, side.name)


def test_demo_is_generated_and_its_seed_matters(tmp_path, preprocess, monkeypatch):
    monkeypatch.setattr(pipeline, "_binarise", lambda job, tmp: "")
    corpus = replace(CORPORA["demo"], merges=50, pairs=40, seed=1)
    job = Job(corpus, tmp_path / "out")
    prepare(job)
    first = (tmp_path / "out/raw/train.lm").read_text()
    prepare(changed(job, seed=2))
    assert (tmp_path / "out/raw/train.lm").read_text() != first
