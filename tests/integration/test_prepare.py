"""The prepare command with the real fairseq-preprocess, and its launchers."""

import os
import subprocess
from pathlib import Path

import pytest

from diverse_mha.corpora.catalogue import CORPORA
from tests import warm
from tests.corpora.miniature import ARCHIVES, numbers, publish

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.integration


def run(command, cwd):
    """Run a command, whose Python has imported torch and fairseq before."""
    python = {"DIVERSE_MHA_PYTHON": str(warm.server().python), **warm.server().variables}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **python}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True
    )


def prepare(*arguments, cwd):
    return run([warm.server().python, "-m", "diverse_mha.cli", "prepare", *arguments], cwd)


def test_demo_becomes_data_that_fairseq_reads(tmp_path):
    """From another folder, to a relative path with a space; then again, with nothing to do."""
    arguments = ["demo", "--out", "my data/demo", "--pairs", "200", "--merges", "100"]
    first = prepare(*arguments, "--workers", "2", cwd=tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.splitlines()[-1] == "ready: fairseq-train 'my data/demo/bin'"
    assert "done" not in first.stdout

    from fairseq.data import Dictionary, data_utils

    folder = tmp_path / "my data/demo/bin"
    words = Dictionary.load(str(folder / "dict.qo.txt"))
    assert words.symbols == Dictionary.load(str(folder / "dict.lm.txt")).symbols
    for split, count in {"train": 200, "valid": 10, "test": 10}.items():
        for language in ("lm", "qo"):
            data = data_utils.load_indexed_dataset(f"{folder}/{split}.lm-qo.{language}", words)
            text = (folder.parent / f"tok/{split}.{language}").read_text(encoding="utf-8")
            back = [words.string(line, bpe_symbol="subword_nmt") for line in data]
            assert back == text.splitlines() and len(back) == count

    again = prepare(*arguments, cwd=tmp_path)
    assert again.stdout.count("(already done)") == 5


@pytest.mark.parametrize("corpus", ["demo", "multi30k"])
def test_launchers_work_from_anywhere(tmp_path, corpus):
    script = ROOT / "data-prep" / f"prepare-{corpus}.sh"
    result = run(["bash", script, "--help"], tmp_path)
    assert result.returncode == 0 and f"usage: data-prep/{script.name}" in result.stdout


@pytest.mark.parametrize("corpus", ARCHIVES)
def test_scripts_of_the_papers_corpora(corpus, tmp_path):
    """The script as a user calls it, on a miniature, with the real fairseq-preprocess."""
    from fairseq.data import Dictionary, data_utils

    publish(corpus, tmp_path / "mini")
    spec, out = CORPORA[corpus], tmp_path / "out"
    command = ["bash", ROOT / "data-prep" / f"prepare-{corpus}.sh", "--unchecked"]
    command += ["--from", "mini", "--out", "out", "--workers", "1"]
    command += [] if spec.segmented else ["--merges", "150"]
    command += ["--sample", "50"] if spec.sample else []
    result = run(command, tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    for split in ("train", "valid", "test"):
        for language in spec.languages:
            words = Dictionary.load(str(out / "bin" / f"dict.{language}.txt"))
            prefix = f"{out}/bin/{split}.{'-'.join(spec.languages)}.{language}"
            data = data_utils.load_indexed_dataset(prefix, words)
            assert len(data) == len(numbers(out / f"bpe/{split}.{language}")) > 0
