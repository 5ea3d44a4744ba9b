"""A corpus that is prepared as an earlier one was, to fine-tune that one's models."""

import json

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import prepare, subwords
from diverse_mha.corpora.text import write_lines

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
    "whole_letters": True,
}


@pytest.fixture
def earlier(tmp_path):
    """A prepared corpus of German and English, and text of one's own."""
    root = tmp_path / "earlier"
    for folder in ("bin", "bpe"):
        (root / folder).mkdir(parents=True)
    (root / "bin/corpus.json").write_text(json.dumps(NOTE))
    for language in ("de", "en"):
        write_lines(root / f"bin/dict.{language}.txt", ["der 5", "m@@ 2"])
        for split in ("train", "valid", "test"):
            write_lines(tmp_path / f"{split}.{language}", ["Der Mann-Hund läuft."] * 3)
            write_lines(tmp_path / f"{split}.fr", ["Le chien."] * 3)
    write_lines(tmp_path / "text", ["der mann läuft und der mann singt"] * 5)
    subwords.learn("bpe", [tmp_path / "text"], root / "bpe/codes", 8)
    return root


def run(earlier, *more, source="de"):
    words = ["own", "--source", source, "--target", "en", "--from", f"{earlier.parent}"]
    prepare.main([*words, "--out", f"{earlier.parent / 'out'}", "--workers", "1", *more])
    return earlier.parent / "out"


@pytest.fixture
def command(monkeypatch):
    """What fairseq-preprocess would have been given."""
    found = []

    def preprocess(prefixes, folder, workers, options):
        found.extend(options)
        for side, option in (("de", "--srcdict"), ("en", "--tgtdict")):
            path = options[options.index(option) + 1]
            (folder / f"dict.{side}.txt").write_text(open(path).read())

    monkeypatch.setattr("diverse_mha.corpora.pipeline.preprocess", preprocess)
    return found


@pytest.mark.parametrize("named", ["", "bin"])
def test_rules_merges_and_dictionaries_are_the_earlier_ones(earlier, command, capsys, named):
    given = f"{earlier / named}"
    out = run(earlier, "--subwords-from", given, "--dictionary-from", given)
    assert (out / "bpe/codes").read_bytes() == (earlier / "bpe/codes").read_bytes()
    text = (out / "bpe/test.de").read_text().splitlines()[0]
    assert text.replace("@@ ", "") == "der mann @-@ hund läuft ."
    made = json.loads((out / "bin/corpus.json").read_text())
    assert {name: made[name] for name in NOTE} == NOTE | {"corpus": "own"}
    assert "--joined-dictionary" not in command
    assert f"{earlier.resolve() / 'bin/dict.de.txt'}" in command
    said = capsys.readouterr().out
    assert f"subwords: those of {earlier}; different" in said
    assert f"dictionaries of {earlier}/bin, 2 and 2 types; unknown: " in said
    run(earlier, "--subwords-from", given, "--dictionary-from", given)
    assert capsys.readouterr().out.count("(already done)") == 5
    (earlier / "bin/dict.de.txt").write_text("other 1\n")
    with pytest.raises(UserError, match=r"bin/ has other dictionaries\)"):
        run(earlier, "--subwords-from", given, "--dictionary-from", given)


def test_the_threshold_goes_by_the_earlier_counts(earlier, command):
    note = NOTE | {"vocabulary_threshold": 2}
    (earlier / "bin/corpus.json").write_text(json.dumps(note))
    for language in ("de", "en"):
        write_lines(earlier / f"bpe/vocab.{language}", ["der 5", "mann 1"])
    out = run(earlier, "--subwords-from", f"{earlier}", "--dictionary-from", f"{earlier}")
    assert (out / "bpe/vocab.de").read_text() == "der 5\nmann 1\n"
    assert (out / "bpe/test.de").read_text().startswith("der m@@ a@@ n@@ n @@@ ")


def test_another_language_may_have_a_joined_dictionary(earlier, command):
    more = ["--subwords-from", f"{earlier}", "--dictionary-from", f"{earlier}"]
    run(earlier, *more, "--dry-run", source="fr")
    (earlier / "bin/dict.de.txt").write_text("other 1\n")
    with pytest.raises(UserError, match="has no dict.fr.txt; there: dict.de.txt, dict.en.txt"):
        run(earlier, *more, source="fr")


@pytest.mark.parametrize(
    "more, message",
    [
        (["--merges", "9"], "--merges 9: --subwords-from decides it; leave it out"),
        (["--lowercase"], "--lowercase: --subwords-from decides it"),
        (["--separate-dictionaries"], "--separate-dictionaries: --dictionary-from decides it"),
        (["--subwords-from", "nowhere"], "--subwords-from nowhere: no prepared corpus; give a"),
    ],
)
def test_what_the_earlier_corpus_decides_is_not_given_again(earlier, more, message):
    with pytest.raises(UserError, match=message):
        run(earlier, "--subwords-from", f"{earlier}", "--dictionary-from", f"{earlier}", *more)


@pytest.mark.parametrize("harm", ["no note", "damaged note", "no codes"])
def test_an_earlier_corpus_that_is_not_whole_is_named(earlier, harm):
    {
        "no note": lambda: (earlier / "bin/corpus.json").unlink(),
        "damaged note": lambda: (earlier / "bin/corpus.json").write_text("{}"),
        "no codes": lambda: (earlier / "bpe/codes").unlink(),
    }[harm]()
    with pytest.raises(
        UserError, match="--subwords-from .*earlier: (has no bpe/codes|corpus.json)"
    ):
        run(earlier, "--subwords-from", f"{earlier}")
