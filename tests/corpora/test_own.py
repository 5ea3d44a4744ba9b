"""Preparation of a user's own corpus, also with the rules of an earlier corpus (``--like``)."""

import gzip
import json
import re

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.own import decide
from diverse_mha.corpora.subwords import learn_pieces
from diverse_mha.corpora.text import write_lines
from tests.corpora.scripts import digest, loaded_hashes, refused, run

SPLITS = ("train", "valid", "test")
WORDS = ["--from", "text", "--out", "out", "--workers", "1"]
DE_EN = ["--source", "de", "--target", "en"]
NOTE = {
    "corpus": "own",
    "source": "de",
    "target": "en",
    "tokenizer_languages": ["de", "en"],
    "normalise": False,
    "aggressive_dashes": True,
    "lowercase": True,
    "subwords": "bpe",
    "vocabulary_threshold": 0,
}
CODES = "#version: 0.2\ne r</w>\nm a\nma n\nman n</w>\nd er</w>\n"


@pytest.fixture
def text(tmp_path):
    """The folder ``text/`` with a small German-English corpus, below the current folder."""
    (tmp_path / "text").mkdir()
    for split in SPLITS:
        write_lines(tmp_path / "text" / f"{split}.de", ["Der Mann-Hund läuft.", "Eins zwei"] * 3)
        write_lines(tmp_path / "text" / f"{split}.en", ["The dog\u2019s man runs.", "One two"] * 3)
    return tmp_path / "text"


@pytest.fixture
def earlier(tmp_path):
    """Folder of a prepared German-English corpus."""
    root = tmp_path / "earlier"
    for name in ("bin", "bpe"):
        (root / name).mkdir(parents=True)
    (root / "bin/corpus.json").write_text(json.dumps(NOTE))
    (root / "bpe/codes").write_text(CODES)
    for language in ("de", "en"):
        write_lines(root / f"bin/dict.{language}.txt", ["der 5", "m@@ 2"])
    return root


def test_folders_contain_the_documented_files(text, tmp_path):
    (text / "test.en").write_bytes("\ufeffTwo\rdogs' owners\u2028run.\r\n".encode() * 5 + b"End")
    (text / "train.en").write_text(
        "Far too long\n" + "far too long " * 20 + "\n\n" + "A man.\n" * 3
    )
    (text / "valid.de").write_text("Der Hund läuft.\n" * 6)
    arguments = [*WORDS, *DE_EN, "--tokeniser", "moses", "--merges", "30"]
    printed = run("own", *arguments, cwd=tmp_path).stdout.splitlines()
    out = tmp_path / "out"
    first = (out / "raw/test.en").read_text(encoding="utf-8").split("\n")[0]
    assert first == "Two dogs' owners\u2028run."
    assert (out / "tok/test.en").read_text().startswith("Two dogs &apos; owners run .\n")
    assert "far" in (out / "tok/train.en").read_text()
    assert "far" not in (out / "clean/train.en").read_text()
    subwords = (out / "bpe/valid.de").read_text(encoding="utf-8")
    assert "@@" in subwords and subwords.replace("@@ ", "").startswith("Der Hund läuft .")
    made = json.loads((out / "bin/corpus.json").read_text())
    assert made["pairs"] == {"train": 4, "valid": 6, "test": 6}
    kept = "4 of 6 train pairs kept; dropped: 1 with a ratio above 9, 1 empty"
    assert printed[2].startswith(f"[3/5] filter: {kept}")
    assert " (30 requested, but no further pair occurs twice); different subwords: " in printed[4]
    (text / "test.en").write_text("One six.\n" * 6)
    refusal = refused("own", *arguments, cwd=tmp_path)
    assert (
        "out holds a corpus prepared from other files or options (step raw: --files=oth" in refusal
    )


def test_options_of_prepare_own_take_effect(text, tmp_path):
    arguments = [*DE_EN, "--tokeniser", "moses", "--lowercase", "--separate-dictionaries"]
    printed = run("own", *WORDS, *arguments, "--max-length", "4", cwd=tmp_path).stdout
    assert "3 of 6 train pairs kept; dropped: 3 longer than 4" in printed
    assert "dictionaries of " in printed
    assert (tmp_path / "out/tok/test.de").read_text().startswith("der mann-hund läuft .\n")
    (tmp_path / "codes").mkdir()  # a folder's name says nothing about the subwords in it
    (tmp_path / "out").rename(tmp_path / "codes/out")
    words = ["--from", "text", "--out", "codes/out", "--workers", "1", "--merges", "40", "--force"]
    run("own", *words, *DE_EN, cwd=tmp_path)
    assert (tmp_path / "codes/out/tok/test.de").read_bytes() == (text / "test.de").read_bytes()
    made = json.loads((tmp_path / "codes/out/bin/corpus.json").read_text())
    rules = ("tokeniser", "subwords", "normalise")
    assert [made[rule] for rule in rules] == ["none", "sentencepiece", False]


def test_lines_longer_than_a_model_reads_are_reported(text, tmp_path):
    """The end-of-sentence token counts as a position."""
    for split, length in {"valid": 1023, "test": 1024}.items():
        write_lines(text / f"{split}.de", [". " * length] * 6)
    arguments = [*DE_EN, "--tokeniser", "moses", "--merges", "9"]
    printed = run("own", *WORDS, *arguments, cwd=tmp_path, check=False)
    assert printed.returncode == 0 and printed.stderr.startswith(
        "warning: test.de: 6 lines of 1,024 sub"
    )
    assert printed.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "more, message",
    [
        (["--source", "x/y"], "--source 'x/y' is not a language code; give one such as de"),
        (["--subwords", "bpe"], "--subwords bpe needs tokens; add --tokeniser moses"),
        (["--like", "x", "--lowercase"], "--lowercase: --like sets it already; leave it out"),
        (["--like", "x"], "--like x: not a prepared corpus; give a folder with bin/"),
        (["--max-ratio", "0.5"], "--max-ratio: 0.5 is not a number from 1 to 1000"),
        (["--merges", "9"], "learn the pieces: every character needs a piece; give 31 or more"),
        (["--out", "o:12"], "--out: o:12 contains a colon, which separates folders in fairseq"),
        (["--from", "out/raw"], "out/raw, given by --from, is not a folder"),
        (["--from", "a\x1b[31mb"], "error: a?[31mb, given by --from, is not a folder"),
    ],
)
def test_invalid_options_are_reported_in_one_line(text, tmp_path, more, message):
    assert message in refused("own", *WORDS, *DE_EN, *more, cwd=tmp_path)
    assert not (tmp_path / "out/tok").exists() or "a piece" in message


def test_unusable_text_is_reported(text, tmp_path):
    (text / "test.de").write_bytes("größer\n".encode("latin-1") * 6)
    assert "text/test.de is not UTF-8 text" in refused("own", *WORDS, *DE_EN, cwd=tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "given, code, noted",
    [
        ("de", "de", False), ("fr-CA", "fr", False), ("FR", "fr", False), ("zh_CN", "zh", False),
        ("cmn", "zh", False), ("xx", "xx", True),
    ],
)  # fmt: skip
def test_variants_of_a_language_code_select_the_same_rules(given, code, noted):
    printed = list(decide((given, "en"), "moses", ""))
    assert f"moses=({code} en)" in printed
    assert (f"note 'note: no rules for {code}; those of English are used'" in printed) is noted
    assert ("counted=target" if code == "zh" else "counted=source,target") in printed


def test_like_reuses_rules_merges_and_dictionaries(text, earlier, tmp_path):
    arguments = [*WORDS, *DE_EN, "--like", "earlier"]
    done = run("own", *arguments, cwd=tmp_path, check=False)
    printed = done.stdout
    out = tmp_path / "out"
    assert (out / "bpe/codes").read_text() == CODES
    first = (out / "bpe/test.de").read_text(encoding="utf-8").splitlines()[0]
    assert first.replace("@@ ", "") == "der mann @-@ hund läuft ."
    made = json.loads((out / "bin/corpus.json").read_text())
    assert {name: made[name] for name in NOTE} == NOTE
    files = [f"dict.{language}.txt" for language in ("de", "en")]
    assert made["dictionaries"] == loaded_hashes(earlier / "bin", *files)
    assert (out / "bin/dict.de.txt").read_text().startswith("der 5\nm@@ 2\n")
    assert "subwords: those of earlier; different" in printed
    # "der" and "m@@" are in three of six German lines, and in no English line.
    unknown = re.search(
        r"types; unknown tokens in train: (\d\d\.\d\d)% of de, 100\.00% of en", printed
    )
    warned = done.stderr.splitlines()
    assert len(warned) == 6 and warned[0].startswith(
        f"warning: train.de: {float(unknown[1]):.1f}% of"
    )
    assert run("own", *arguments, cwd=tmp_path).stdout.count("(already done)") == 5
    (earlier / "bin/dict.de.txt").write_text("other 1\n")
    assert "(step bin: --dict" in refused("own", *arguments, cwd=tmp_path)


def test_like_names_lines_of_which_an_older_model_loses_characters(text, tmp_path):
    arguments = ["--from", "text", *DE_EN, "--workers", "1"]
    run("own", *arguments, "--merges", "40", "--out", "older", cwd=tmp_path)
    model = tmp_path / "older/bpe/sentencepiece.model"
    learn_pieces([text / "train.de", text / "train.en"], model, 40)
    write_lines(text / "test.de", ["Der Mann", "Der \u2581 Hund"] * 3)
    done = run("own", *arguments, "--out", "out", "--like", "older", cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    named = [line for line in done.stderr.splitlines() if "U+2581" in line]
    assert len(named) == 1 and named[0].startswith("warning: test.de: line 2 and 2 more: ")


def test_gzipped_text_gives_the_same_corpus(text, tmp_path):
    arguments = [*WORDS, *DE_EN, "--merges", "40"]
    run("own", *arguments, cwd=tmp_path)
    before = digest(tmp_path / "out")
    for path in sorted(text.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        if path.name == "train.de":
            assert run("own", *arguments, cwd=tmp_path).stdout.count("(already done)") == 5, (
                "gzipping a text repeats no step"
            )
            path.write_text("Eins\n" * 6)
            printed = refused("own", *arguments, cwd=tmp_path)
            assert "text has train.de and train.de.gz with different text; keep one of t" in printed
        path.unlink()
    assert run("own", *arguments, cwd=tmp_path).stdout.count("(already done)") == 5
    run("own", *arguments, "--out", "again", cwd=tmp_path)
    assert digest(tmp_path / "again") == before
    (text / "train.de.gz").unlink()
    printed = refused("own", *arguments, cwd=tmp_path)
    assert "text has no train.de; put it there, plain or gzipped as train.de.gz" in printed


def test_other_languages_need_another_folder_or_force(text, tmp_path):
    arguments = [*WORDS, "--target", "en", "--merges", "40"]
    run("own", *arguments, "--source", "de", cwd=tmp_path)
    for split in SPLITS:
        (text / f"{split}.de").rename(text / f"{split}.fr")
    printed = refused("own", *arguments, "--source", "fr", cwd=tmp_path)
    assert (
        "out holds another prepared corpus (own, de to en); give another --out, or --for" in printed
    )
    run("own", *arguments, "--source", "fr", "--force", cwd=tmp_path)
    assert (tmp_path / "out/bin/dict.fr.txt").is_file()


def test_folder_with_foreign_files_is_left_unchanged(text, tmp_path):
    arguments = [*WORDS[:2], *DE_EN, "--merges", "40", "--out", "docs"]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/.hidden").touch()
    run("own", *arguments, cwd=tmp_path)
    (tmp_path / "docs/notes").touch()  # files beside a corpus are allowed
    run("own", *arguments, "--force", "--lowercase", cwd=tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/page.md").touch()
    printed = refused("own", *arguments, "--out", "other", cwd=tmp_path)
    assert (
        "--out other: has other files in it (page.md); give a new folder, or an empty one"
        in printed
    )
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["page.md"]
    assert "--out text: has other files" in refused(
        "own", *arguments, "--out", "text", cwd=tmp_path
    )


@pytest.mark.parametrize("harm", ["bin/corpus.json", "bpe/codes", "{}"])
def test_incomplete_earlier_corpus_is_reported(earlier, harm):
    if harm == "{}":
        (earlier / "bin/corpus.json").write_text(harm)
    else:
        (earlier / harm).unlink()
    with pytest.raises(
        UserError, match="--like .*earlier: (has no bpe/codes|not a prepared corpus)"
    ):
        list(decide(("de", "en"), "moses", f"{earlier}"))


def test_earlier_corpus_needs_both_languages(earlier):
    with pytest.raises(UserError, match="is a corpus of de and en; give one of "):
        list(decide(("fr", "en"), "moses", f"{earlier}"))
