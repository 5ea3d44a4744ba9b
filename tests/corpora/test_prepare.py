"""The prepare command: its options, its help, and its errors of one line."""

import shlex
from pathlib import Path

import pytest

from diverse_mha import cli
from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.corpora import prepare
from diverse_mha.corpora.catalogue import CORPORA

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def own(tmp_path):
    """A folder with a corpus of one's own."""
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.de").write_text("eins zwei\n" * 3)
        (tmp_path / f"{split}.en").write_text("one two\n" * 3)
    return tmp_path


def own_arguments(folder):
    return ["own", "--source", "de", "--target", "en", "--from", f"{folder}", "--out", "x"]


@pytest.fixture
def jobs(monkeypatch):
    """Collect the jobs instead of running them."""
    found = []
    monkeypatch.setattr(prepare, "prepare", found.append)
    return found


def test_options_reach_the_job(jobs, capsys):
    prepare.main(
        "multi30k --out o --from f --merges 9 --vocabulary-threshold 2 --workers 3".split()
    )
    prepare.main("demo --out o --pairs 99 --seed 4 --separate-dictionaries --lowercase".split())
    multi30k, demo = (job.corpus for job in jobs)
    assert (multi30k.name, f"{jobs[0].local}", multi30k.merges) == ("multi30k", "f", 9)
    assert (multi30k.vocabulary_threshold, jobs[0].workers, multi30k.joined) == (2, 3, True)
    assert (demo.pairs, demo.seed, demo.joined, demo.lowercase) == (99, 4, False, True)
    assert demo.merges == CORPORA["demo"].merges
    assert capsys.readouterr().out.splitlines()[0] == "ready: fairseq-train o/bin"


@pytest.mark.parametrize("arguments", [["--help"], ["multi30k", "--help"], ["own", "--help"]])
def test_help_fits_the_screen_and_ends_well(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        prepare.main(arguments)
    assert end.value.code == 0
    assert "bin/" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("", "required: CORPUS"),
        ("wmt99 --out o", "invalid choice: 'wmt99'"),
        (
            "multi30k --out",
            "--out: expected one argument; see diverse-mha prepare multi30k --help",
        ),
        ("multi30k --out o --merges 0", "--merges: 0 is not a whole number from 1 up"),
        ("multi30k --out o --workers many", "--workers: many is not a whole number from 1 up"),
        ("multi30k --out o --subwords wordpiece", "invalid choice: 'wordpiece'"),
        ("demo --out o --pairs 3", "--pairs: 3 is not a whole number from 20 up"),
        (
            "demo --out o --from f",
            "unrecognized arguments: --from f; see diverse-mha prepare demo --help",
        ),
        ("own --out o --source de --target en", "required: --from"),
        ("demo --out o --max-ratio 0.5", "--max-ratio: 0.5 is not a number from 1 to 1000"),
        ("demo --out o --tokeniser none", "unrecognized arguments: --tokeniser none"),
        (
            "own --source de --target en --from f --tokeniser none --subwords bpe",
            "--subwords bpe needs tokens; give --subwords sentencepiece, or none",
        ),
        (
            "demo --out o --subwords sentencepiece --vocabulary-threshold 5",
            "--vocabulary-threshold works with --subwords bpe only",
        ),
    ],
)
def test_wrong_options_are_one_line_and_code_2(arguments, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        run_cli(lambda: prepare.main(arguments.split()))
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_without_a_tokeniser_sentencepiece_gets_the_text(jobs, capsys):
    prepare.main([*own_arguments("f"), "--tokeniser", "none", "--normal-form", "NFKC"])
    prepare.main([*own_arguments("f"), "--max-length", "9", "--max-ratio", "1.5"])
    raw, default = (job.corpus for job in jobs)
    assert (raw.tokeniser, raw.subwords, raw.normalise) == ("none", "sentencepiece", False)
    assert raw.normal_form == "NFKC" and default.normal_form == "NFC"
    assert (default.tokeniser, default.subwords) == ("moses", "bpe")
    assert (default.max_length, default.max_ratio) == (9, 1.5)


def test_own_corpus_whose_sides_differ_is_refused(own, monkeypatch):
    monkeypatch.chdir(own)
    (own / "valid.en").write_text("one two\n" * 1200)
    with pytest.raises(UserError, match=r"valid.de has 3 lines, .*valid.en has 1,200;") as info:
        prepare.main(own_arguments(own))
    assert "\n" not in str(info.value)
    assert not (own / "x").exists()


def test_own_corpus_that_changed_is_prepared_anew_by_force_only(own, monkeypatch, capsys):
    monkeypatch.chdir(own)
    monkeypatch.setattr("diverse_mha.corpora.pipeline._binarise", lambda job, tmp: "done")
    prepare.main(own_arguments(own))
    prepare.main(own_arguments(own))
    assert capsys.readouterr().out.count("(already done)") == 5
    (own / "test.en").write_text("one six\n" * 3)
    with pytest.raises(UserError, match="^x holds another .*raw/ has other files.* or --force to"):
        prepare.main(own_arguments(own))
    assert (own / "x/raw/test.en").read_text() == "one two\n" * 3
    prepare.main([*own_arguments(own), "--force"])
    assert capsys.readouterr().out.count("(already done)") == 0
    assert (own / "x/raw/test.en").read_text() == "one six\n" * 3


def test_a_run_that_is_refused_takes_nothing_away(own, monkeypatch, capsys):
    monkeypatch.chdir(own)
    monkeypatch.setattr("diverse_mha.corpora.pipeline._binarise", lambda job, tmp: "done")
    prepare.main(own_arguments(own))
    too_high = [*own_arguments(own), "--vocabulary-threshold", "99"]
    for arguments in (too_high, own_arguments("x/raw")):
        with pytest.raises(UserError, match="--vocab|--from"):
            prepare.main([*arguments, "--force"])
    (own / "test.en").write_text("one\n")
    with pytest.raises(UserError, match="test.en has 1;"):
        prepare.main([*own_arguments(own), "--force"])
    (own / "test.en").write_text("one two\n" * 3)
    capsys.readouterr()
    prepare.main(own_arguments(own))
    assert capsys.readouterr().out.count("(already done)") == 5


@pytest.mark.parametrize(
    "given, code, noted",
    [
        ("de", "de", False), ("fra", "fr", False), ("fr-CA", "fr", False), ("FR", "fr", False),
        ("deu", "de", False), ("cat", "ca", False),
        ("zh-CN", "zh", False), ("zh_CN", "zh", False), ("cmn", "zh", False),
        ("ja", "ja", True), ("jpn", "ja", True), ("xx", "xx", True),
    ],
)  # fmt: skip
def test_the_rules_are_those_of_the_language_whatever_its_code(jobs, capsys, given, code, noted):
    prepare.main(["own", "--source", given, "--target", "en", "--from", "f", "--out", "o"])
    corpus = jobs[0].corpus
    assert corpus.tokeniser_languages == (code, "en")
    assert corpus.languages == (given, "en"), "the names of the files stay"
    assert corpus.published()[0].name == f"train.{given}"
    note = f"note: no rules for {code}; those of English are used\n"
    assert capsys.readouterr().out.startswith(note if noted else "ready:")


@pytest.mark.parametrize("code", ["", " ", "a/b", "-x", "de.x"])
def test_what_is_no_language_is_refused(own, code):
    for option, place in (("source", 2), ("target", 4)):
        arguments = own_arguments(own)
        arguments[place - 1 : place + 1] = [f"--{option}={code}"]
        with pytest.raises(UserError, match=f"--{option} '{code}' is no language's code; give one"):
            prepare.main(arguments)


def test_languages_that_fairseq_would_part_are_in_the_command(jobs, own, capsys):
    arguments = own_arguments(own)
    arguments[2] = "fr-CA"
    prepare.main(arguments)
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.endswith("/bin --source-lang fr-CA --target-lang en")


@pytest.mark.parametrize("side", ["de", "en"])
def test_a_side_without_text_is_refused(own, tmp_path, side):
    (own / f"test.{side}").write_text("\n \n\n")
    arguments = [*own_arguments(own)[:-1], f"{tmp_path / 'out'}"]
    with pytest.raises(UserError, match=rf"the test text \(.*test.{side}\) is empty; give one"):
        prepare.main(arguments)


def test_a_folder_that_fairseq_would_take_for_two_is_refused():
    with pytest.raises(UserError, match="argument --out: o:12: fairseq takes what : parts for"):
        prepare.main(["demo", "--out", "o:12"])


def test_same_language_twice_is_refused(own):
    arguments = own_arguments(own)
    arguments[4] = "de"
    with pytest.raises(UserError, match="--source and --target are both de"):
        prepare.main(arguments)


@pytest.mark.parametrize("script", sorted((ROOT / "data-prep").glob("*.sh")), ids=lambda p: p.stem)
def test_a_script_calls_the_command_whose_help_names_it(script, monkeypatch, capsys):
    """The usage line is the script's, and ``--out``, which the script gives, is not required."""
    words = shlex.split(script.read_text().partition("exec ")[2].replace("\\\n", ""))
    words = [word for word in words if word != "$@"]
    assert words[1:3] == ["-m", cli.__name__] and words[-2] == "--out"
    monkeypatch.setenv("DIVERSE_MHA_SCRIPT", script.name)  # as scripts/env.sh does
    folder = words[-1].removeprefix("$root/")
    assert folder == f"data/{script.stem.removeprefix('prepare-')}"
    with pytest.raises(SystemExit) as end:
        run_cli(lambda: cli.run([*words[3:], "--help"]))
    said = " ".join(capsys.readouterr().out.split())
    assert end.value.code == 0
    assert said.startswith(f"usage: data-prep/{script.name} [-h] [--out FOLDER]")
    assert f"--out FOLDER where all output goes ({folder})" in said
