"""Every corpus of the papers end to end, on a miniature of its archives in a local folder.

fairseq-preprocess is replaced here; tests/integration runs the scripts with the real one.
"""

import dataclasses
import errno
import hashlib
import json
import shutil
from types import SimpleNamespace

import pytest

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.corpora import archives, binarise, pipeline, prepare
from diverse_mha.corpora.catalogue import CORPORA
from diverse_mha.corpora.corpus import Job
from diverse_mha.corpora.counts import PaperCount
from tests.corpora.miniature import ARCHIVES, HELD, TRAIN, numbers, publish, write_archive

# Pairs of train (before the filter), valid and test in the miniature.
SIZES = {
    "iwslt14": (TRAIN + 4 - 2, 2, 5 * HELD),
    "iwslt17": (TRAIN, 6 * HELD, HELD),
    "wmt14-en-de": (3 * TRAIN, HELD, HELD),
    "wmt14-en-de-google": (TRAIN, HELD, HELD),
    "wmt17-de-en": (50, 7 * HELD, HELD),
    "wmt17-zh-en": (28 * TRAIN, HELD, HELD),
    "un-ru-en": (50, HELD, HELD),
    "un-zh-en": (50, HELD, HELD),
}
OPTIONS = {
    name: (["--merges", "150"] if not CORPORA[name].segmented else [])
    + (["--sample", "50"] if CORPORA[name].sample else [])
    for name in ARCHIVES
}


@pytest.fixture(autouse=True)
def preprocess(monkeypatch):
    """Replace fairseq-preprocess; the list holds the commands that would have run."""
    commands = []

    def run(command, **_):
        commands.append(command)
        folder = command[command.index("--destdir") + 1]
        for side in ("--source-lang", "--target-lang"):
            with open(f"{folder}/dict.{command[command.index(side) + 1]}.txt", "w") as file:
                file.write("a 2\nb 1\n")
        return 0, ""

    monkeypatch.setattr(binarise, "run_to_end", run)
    return commands


def arguments(name, tmp_path, *more):
    return [
        name, "--out", f"{tmp_path / 'out'}", "--from", f"{tmp_path / 'mini'}", "--workers", "1",
        *OPTIONS[name], *more,
    ]  # fmt: skip


def run_main(words, capsys):
    """Run the command as a process would, and return its exit code, output and errors."""
    with pytest.raises(SystemExit) as end:
        run_cli(lambda: prepare.main(words))
    return end.value.code, *capsys.readouterr()


def left_over(tmp_path):
    """Return what a run that failed has left, but for its lock."""
    out = tmp_path / "out"
    return [p.name for p in out.iterdir()] if out.exists() else []


@pytest.mark.parametrize("name", ARCHIVES)
def test_miniature_becomes_data(name, tmp_path, capsys, preprocess):
    publish(name, tmp_path / "mini")
    words = arguments(name, tmp_path, "--unchecked")
    code, output, errors = run_main(words, capsys)
    assert (code, errors) == (0, "")
    corpus, out = CORPORA[name], tmp_path / "out"
    sizes = dict(zip(("train", "valid", "test"), SIZES[name], strict=True))
    raw_splits = ("valid", "test") if corpus.segmented else sizes
    for folder, splits in {"raw": raw_splits, "tok": raw_splits, "bpe": sizes}.items():
        for split in splits:
            source, target = (numbers(out / folder / f"{split}.{x}") for x in corpus.languages)
            assert source == target, (folder, split)
            assert len(source) == sizes[split], (folder, split)
    assert list(out.glob("*.tmp")) == [] and not (out / "raw/unpacked").exists()
    lines = output.splitlines()
    assert lines[0].startswith("unchecked: not verified to be the published files: ")
    assert len([line for line in lines if line.startswith("[")]) == 4 + (not corpus.segmented)
    # 60 sentences are not what any paper had, and the result says so.
    warnings = [line for line in lines if line.startswith("warning: train: ")]
    assert len(warnings) == len([count for count in corpus.counts if count.split == "train"])
    assert lines[-1] == f"ready: fairseq-train {out / 'bin'}"
    made = json.loads((out / "bin/corpus.json").read_text())
    assert made["files_checked"] is False and made["pairs"] == sizes
    assert ("--joined-dictionary" in preprocess[0]) is corpus.joined
    if name == "wmt17-zh-en":  # words, and subwords for each side
        assert "花园 " in (out / "tok/train.zh").read_text(encoding="utf-8")
        codes = {side: (out / f"bpe/codes.{side}").read_text() for side in ("en", "zh")}
        assert "睡" in codes["zh"] and "睡" not in codes["en"] and "e" in codes["en"]


@pytest.mark.parametrize("name", ARCHIVES)
def test_without_unchecked_the_miniature_is_refused(name, tmp_path, capsys):
    publish(name, tmp_path / "mini")
    code, output, errors = run_main(arguments(name, tmp_path), capsys)
    assert (code, output) == (2, "")
    assert errors.startswith(f"error: {tmp_path}/mini/") and errors.count("\n") == 1
    assert "expected" in errors
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("name", ARCHIVES)
def test_dry_run_says_all_and_does_nothing(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("network"))
    words = [name, "--out", "out", "--dry-run"]
    code, output, errors = run_main(words, capsys)
    assert (code, errors) == (0, "")
    corpus = CORPORA[name]
    for archive in ARCHIVES[name]:
        file = next(file for file in corpus.published() if file.name == archive)
        assert f"file: {archive} (" in output
        assert file.size is None or f"{file.size:,} bytes" in output
        assert all(url in output for url in file.urls) and file.urls
    assert "disk: about " in output and "binarise: bin/" in output
    assert list(tmp_path.iterdir()) == []


def test_iwslt14_follows_the_recipe(tmp_path, capsys):
    """Titles stay, tags go; lowercased; every 23rd pair that passes is valid; sets in order."""
    publish("iwslt14", tmp_path / "mini")
    assert run_main(arguments("iwslt14", tmp_path, "--unchecked"), capsys)[0] == 0
    out = tmp_path / "out"
    train, valid = numbers(out / "raw/train.de"), numbers(out / "raw/valid.de")
    every = sorted(train + valid)
    published = [*range(10_000, 10_000 + TRAIN)]
    assert sorted(set(every) - {7000, 7001, 8000, 8001}) == published
    order = [7000, 8000, *published[:30], 7001, 8001, *published[30:]]
    kept = [n for n in order if n in set(numbers(out / "clean/train.de")) | set(valid)]
    assert valid == kept[22::23] and len(valid) == 2
    assert (out / "tok/test.de").read_text() == (out / "tok/test.de").read_text().lower()
    assert (out / "raw/test.de").read_text() != (out / "raw/test.de").read_text().lower()
    sets = [number // 100 for number in numbers(out / "raw/test.en")[::HELD]]
    assert sets == [101, 105, 102, 103, 104]  # dev2010, TEDX dev2012, tst2010, tst2011, tst2012


def test_wmt_segments_are_read_as_text(tmp_path, capsys):
    publish("wmt14-en-de", tmp_path / "mini")
    assert run_main(arguments("wmt14-en-de", tmp_path, "--unchecked"), capsys)[0] == 0
    last = (tmp_path / "out/raw/test.en").read_text().splitlines()[-1]
    assert last.startswith("Q&A ") and "<" not in last


def test_sample_is_drawn_by_its_seed(tmp_path, capsys):
    publish("un-ru-en", tmp_path / "mini")
    drawn = []
    for seed in ("1", "1", "2"):
        words = arguments("un-ru-en", tmp_path, "--unchecked", "--sample-seed", seed)
        assert run_main(words, capsys)[0] == 0
        drawn.append(numbers(tmp_path / "out/raw/train.ru"))
        shutil.rmtree(tmp_path / "out")
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] == sorted(set(drawn[0])) and len(drawn[0]) == 50


def test_google_text_is_taken_as_it_is(tmp_path, capsys, preprocess):
    publish("wmt14-en-de-google", tmp_path / "mini")
    words = arguments("wmt14-en-de-google", tmp_path, "--unchecked")
    assert run_main(words, capsys)[0] == 0
    out = tmp_path / "out"
    assert len((out / "bpe/codes").read_text().splitlines()) == 3
    assert not (out / "clean").exists() and not (out / "bpe/unpacked").exists()
    command = preprocess[0]
    assert command[command.index("--nwordssrc") + 1] == "32768" and "--nwordstgt" in command
    assert run_main(words, capsys)[1].count("(already done)") == 4


def test_finished_steps_are_skipped_and_interrupted_ones_done_again(tmp_path, capsys, monkeypatch):
    publish("wmt17-de-en", tmp_path / "mini")
    words = arguments("wmt17-de-en", tmp_path, "--unchecked")

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("diverse_mha.corpora.pipeline.tokenise_split", interrupt)
        assert run_main(words, capsys)[0] == 130
    assert left_over(tmp_path) == ["raw"]
    output = run_main(words, capsys)[1]
    assert output.count("(already done)") == 1
    assert run_main(words, capsys)[1].count("(already done)") == 5


def test_missing_file_is_named(tmp_path, capsys):
    publish("wmt14-en-de", tmp_path / "mini")
    (tmp_path / "mini/dev.tgz").unlink()
    code, _, errors = run_main(arguments("wmt14-en-de", tmp_path, "--unchecked"), capsys)
    assert code == 2 and errors.count("\n") == 1
    assert f"{tmp_path}/mini has no dev.tgz; put it there" in errors
    assert left_over(tmp_path) == []


def test_all_missing_files_are_named_at_once(tmp_path, capsys):
    publish("wmt14-en-de", tmp_path / "mini")
    for name in ("dev.tgz", "training-parallel-nc-v9.tgz"):
        (tmp_path / "mini" / name).unlink()
    errors = run_main(arguments("wmt14-en-de", tmp_path), capsys)[2]
    assert errors.count("\n") == 1
    assert "mini has no training-parallel-nc-v9.tgz, no dev.tgz; put them there" in errors


def test_a_download_kept_from_an_unchecked_run_does_not_pass_as_checked(
    tmp_path, capsys, monkeypatch
):
    publish("wmt14-en-de", tmp_path / "mini")
    (tmp_path / "mini").rename(tmp_path / "download")  # as an unchecked run leaves them
    (tmp_path / "out").mkdir()
    (tmp_path / "download").rename(tmp_path / "out" / "download")
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("network"))
    words = arguments("wmt14-en-de", tmp_path)
    at = words.index("--from")
    words[at : at + 2] = []
    assert run_main([*words, "--unchecked"], capsys)[0] == 0
    code, _, errors = run_main([*words, "--force"], capsys)
    assert code == 2 and "bytes, expected" in errors and "delete it" in errors
    made = json.loads((tmp_path / "out/bin/corpus.json").read_text())
    assert made["files_checked"] is False  # nor does what was made of it


@pytest.mark.parametrize(
    "name, archive", [("iwslt17", "de-en.tgz"), ("wmt17-zh-en", "datum2017.zip")]
)
@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_cut_off_archive_is_named(name, archive, keep, tmp_path, capsys):
    path = publish(name, tmp_path / "mini") / archive
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    code, _, errors = run_main(arguments(name, tmp_path, "--unchecked"), capsys)
    assert code == 2 and errors.count("\n") == 1
    assert f"{archive} is damaged or cut off" in errors
    assert left_over(tmp_path) == []


def test_sides_that_do_not_fit_are_named(tmp_path, capsys, monkeypatch):
    name = "en-ru/UNv1.0.en-ru.ru"
    make, language, count, stem = ARCHIVES["un-ru-en"]["UNv1.0.en-ru.tar.gz"][name]
    monkeypatch.setitem(
        ARCHIVES["un-ru-en"]["UNv1.0.en-ru.tar.gz"], name, (make, language, count - 1, stem)
    )
    publish("un-ru-en", tmp_path / "mini")
    code, _, errors = run_main(arguments("un-ru-en", tmp_path, "--unchecked"), capsys)
    assert code == 2 and errors.count("\n") == 1
    assert f"{name} in UNv1.0.en-ru.tar.gz has 59 lines" in errors
    assert "UNv1.0.en-ru.en in UNv1.0.en-ru.tar.gz has 60" in errors
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("name", ARCHIVES)
def test_disk_without_room_is_refused_before_anything_is_fetched(
    name, tmp_path, capsys, monkeypatch
):
    publish(name, tmp_path / "mini")
    usage = SimpleNamespace(total=10**12, used=0, free=10**8)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("network"))
    words = arguments(name, tmp_path)
    at = words.index("--from")
    code, _, errors = run_main(words[:at] + words[at + 2 :], capsys)
    assert code == 2 and errors.count("\n") == 1
    assert "are needed and 100 MB are free; free some space" in errors
    assert left_over(tmp_path) == []


def test_disk_that_fills_up_ends_in_one_line(tmp_path, capsys, monkeypatch):
    publish("iwslt17", tmp_path / "mini")

    def full(member, file, length):
        file.write(b"half")
        place = file.name
        raise OSError(errno.ENOSPC, "No space left on device", f"{place}")

    monkeypatch.setattr(archives.shutil, "copyfileobj", full)
    code, _, errors = run_main(arguments("iwslt17", tmp_path, "--unchecked"), capsys)
    assert code == 2 and errors.count("\n") == 1
    assert "No space left on device; free some space and run the same command again" in errors
    assert left_over(tmp_path) == []


def test_missing_jieba_is_said_before_anything_is_fetched(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jieba", None)
    code, _, errors = run_main(["un-zh-en", "--out", f"{tmp_path}/out"], capsys)
    assert (code, errors) == (2, "error: Chinese text needs jieba: run pip install jieba\n")
    assert left_over(tmp_path) == []


def test_sample_larger_than_the_corpus_is_refused(tmp_path, capsys):
    publish("un-ru-en", tmp_path / "mini")
    words = arguments("un-ru-en", tmp_path, "--unchecked")
    words[words.index("--sample") + 1] = "61"
    code, _, errors = run_main(words, capsys)
    assert code == 2 and "--sample 61 is more than there is: 60 of the 60 training" in errors
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_option_of_a_corpus_means_something(name, capsys):
    with pytest.raises(SystemExit):
        prepare.main([name, "--help"])
    shown = capsys.readouterr().out
    corpus = CORPORA[name]
    assert ("--sample" in shown) is (corpus.sample is not None)
    assert ("--merges" in shown) is (not corpus.segmented)
    assert ("--lowercase" in shown) is (not corpus.segmented and not corpus.lowercase)
    assert max(map(len, shown.splitlines())) <= 80
    assert all(isinstance(count, PaperCount) for count in corpus.counts)


def test_archive_that_lacks_a_text_ends_in_one_line(tmp_path, capsys):
    path = publish("iwslt17", tmp_path / "mini") / "de-en.tgz"
    write_archive(path, {"de-en/train.tags.de-en.de": b"a\n", "../evil": b"evil"})
    code, _, errors = run_main(arguments("iwslt17", tmp_path, "--unchecked"), capsys)
    assert code == 2 and errors.count("\n") == 1
    assert "de-en.tgz has no " in errors
    assert left_over(tmp_path) == [] and list(tmp_path.rglob("evil")) == []


def test_archive_without_known_checksum_is_noted_and_its_lines_counted(tmp_path, capsys):
    """The training archive is excused here, the official sets are not."""
    publish("un-ru-en", tmp_path / "mini")
    spec = CORPORA["un-ru-en"]
    files = {**spec.files, "train": spec.unchecked().files["train"]}
    corpus = dataclasses.replace(spec, files=files, merges=9, sample=50)
    job = Job(corpus, tmp_path / "out", local=tmp_path / "mini")
    with pytest.raises(UserError, match="UNv1.0.devset.ru in .* has 4 sentences, expected 4,000"):
        pipeline.prepare(job)
    digest = hashlib.sha256((tmp_path / "mini/UNv1.0.testsets.tar.gz").read_bytes()).hexdigest()
    note = f"note: no checksum of UNv1.0.testsets.tar.gz is known; its sha256 is {digest}\n"
    assert note in capsys.readouterr().out
    assert left_over(tmp_path) == []
