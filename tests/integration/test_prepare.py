"""The prepare command with the real fairseq-preprocess, and its launchers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.integration


def run(command, cwd, **environment):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True
    )


def prepare(*arguments, cwd):
    return run([sys.executable, "-m", "diverse_mha.corpora.prepare", *arguments], cwd)


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
    result = run(["bash", script, "--help"], tmp_path, DIVERSE_MHA_PYTHON=sys.executable)
    assert result.returncode == 0 and f"usage: prepare {corpus}" in result.stdout
