"""``diverse-mha compare --reference``: files of translations by any toolkit."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU, CHRF

from diverse_mha import cli
from diverse_mha.common.errors import UserError


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """Write a source, its reference, and translations of two systems with two seeds each.

    Return the lines of the reference.
    """
    monkeypatch.chdir(tmp_path)
    generator = random.Random(1)
    reference = [" ".join(f"w{generator.randrange(40)}" for _ in range(9)) for _ in range(50)]
    Path("ref").write_text("\n".join(reference) + "\n")
    Path("src").write_text("\n".join(line.upper() for line in reference) + "\n")
    for system, share in (("base", 0.3), ("good", 0.1)):
        for seed in (1, 2):
            lines = (
                " ".join(w if generator.random() > share else "x" for w in line.split())
                for line in reference
            )
            Path(f"{system}.seed{seed}").write_text("\n".join(lines) + "\n")
    return reference


BASE, GOOD = ["base=base.seed1", "base.seed2"], ["good=good.seed1", "good.seed2"]


def test_systems_are_tested_over_seeds_and_sentences(texts, capsys):
    arguments = ["compare", "--reference", "ref", "--source", "src", "--output", "out.json"]
    assert cli.run([*arguments, "--system", *BASE, "--system", *GOOD]) == 0
    first = capsys.readouterr().out
    base, good = json.loads(Path("out.json").read_text())["systems"]
    assert (base["name"], good["name"]) == ("base", "good")
    for name, metric in (("BLEU", BLEU()), ("chrF", CHRF())):
        for system in (base, good):
            for run in system["runs"]:
                lines = Path(run["path"]).read_text().splitlines()
                score = metric.corpus_score(lines, [texts]).score
                assert run[name] == pytest.approx(score, abs=1e-6)
        found = good["measures"][name]
        assert found["difference"]["over_seeds"] and found["difference"]["p"] < 0.05
        assert found["over_seeds"]["by_seed"], "seeds are read from file names"
    assert cli.run([*arguments, "--baseline", *BASE, "--system", *GOOD]) == 0
    assert capsys.readouterr().out == first, "the baseline is the first system or --baseline"


@pytest.mark.parametrize(
    "change",
    [str, "\ufeff{}".format, lambda text: text.replace("\n", " \r\n")],
    ids=["equal", "byte-order-mark", "line-ends"],
)
def test_copies_of_a_file_count_as_one_seed(texts, capsys, change):
    """Two copies have no spread, which would be taken for seeds that hardly differ."""
    Path("copy").write_text(change(Path("base.seed1").read_text()), encoding="utf-8", newline="")
    arguments = ["compare", "--reference", "ref", "--output", "out.json", "--system", "base=copy"]
    measures = []
    for more in (["base.seed1"], []):
        assert cli.run([*arguments, *more, "--system", *GOOD]) == 0
        measures.append(json.loads(Path("out.json").read_text())["systems"][1]["measures"])
        out = capsys.readouterr().out
        assert "]†" in out and ("Equal results: copy, base.seed1." in out) == bool(more)
    assert measures[0] == measures[1]
    assert not measures[0]["BLEU"]["difference"]["over_seeds"]


def test_systems_with_very_low_scores_are_not_tested_for_significance(texts, capsys):
    for system, count in (("base", 3), ("good", 20)):
        for seed in (1, 2):
            lines = ["x y z x y"] * 50
            for index in range(seed, seed + count):
                lines[index] = f"x {texts[index].split()[0]} y z x"
            Path(f"{system}.seed{seed}").write_text("\n".join(lines) + "\n")
    arguments = ["compare", "--reference", "ref", "--output", "out.json"]
    assert cli.run([*arguments, "--system", *BASE, "--system", *GOOD]) == 0
    out = capsys.readouterr().out
    assert "Too low to compare on both sides: BLEU (below 1), chrF (below 10)." in out
    assert "[" not in out and "resamples" not in out and "Could find" not in out
    for measure in json.loads(Path("out.json").read_text())["systems"][1]["measures"].values():
        assert measure["mean"] > 0 and measure["difference"]["value"] > 0
        for test in (measure["difference"], measure["over_seeds"]):
            assert (test["p"], test["interval"], measure["holm"]) == (None, None, None)
    Path("good.seed1").write_text("\n".join(texts) + "\n")
    assert cli.run([*arguments, "--system", *BASE, "--system", *GOOD]) == 0
    assert "Too low" not in capsys.readouterr().out, "a test is made if one system translates"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--reference ref --system a=base.seed1", "--baseline is missing"),
        ("--reference ref --system a=short --system b=ref", "--system short: has 2 lines, --ref"),
        ("--reference ref --source short --system a=ref --system b=x", "--source short: has 2 li"),
        ("--reference ref --source src --system a=base.seed1 --system b=src", "is the source text"),
        ("--reference ref --system a=base.seed1 --system b=gone", "gone: no such file"),
        ("--reference ref --system no/a --system no/b", "^--system no/a: no such file"),
        ("--scores no/a --scores no/b", "^--scores no/a: no such file; check the name"),
        ("--reference gone --system a=base.seed1 --system b=ref", "--reference gone: no such file"),
        ("--source src --system a=ref --system b=ref", "--source src: needs --reference"),
        ("--tokenize zh --system a=ref --system b=ref", "--tokenize zh: needs --reference"),
        ("--reference ref --tokenize no --system a=ref --system b=x", "--tokenize no: not in"),
        ("--reference ref --despite-search --system a=ref --system b=x", "has no effect"),
        ("--reference ref --scores a=ref --scores b=x", "--reference: does not go with --scores"),
        ("--system a=ref --system b=src", "ref: not readable as .*, or add --reference if it"),
    ],
)  # fmt: skip
def test_user_errors_are_reported_in_one_line(texts, words, message):
    Path("short").write_text("a b\nc\n")
    with pytest.raises(UserError, match=message) as bad:
        cli.run(["compare", *words.split()])
    assert "\n" not in str(bad.value)


def test_compare_imports_neither_torch_nor_fairseq(texts):
    code = (
        "import sys\nsys.modules['torch'] = sys.modules['fairseq'] = None\n"
        "from diverse_mha import cli\n"
        f"words = ['compare', '--reference', 'ref', '--system', *{BASE}, '--system', *{GOOD}]\n"
        "assert cli.run(words) == 0\n"
        "assert not {'scipy.stats', 'scipy.optimize', 'matplotlib'} & sys.modules.keys()\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0 and "good" in done.stdout, done.stderr
