"""Text for language models with the real fairseq-preprocess, and the launchers."""

import os
import subprocess
import sys

import pytest

from tests.integration.conftest import ROOT, run

pytestmark = pytest.mark.integration


def test_own_text_becomes_data_that_fairseq_reads(tmp_path):
    texts = {
        "train": "a b <unk> c\n\na b\n" * 40,
        "valid": "a c\n",
        "test": "b new",
    }
    for split, text in texts.items():
        (tmp_path / f"{split}.txt").write_text(text)
    arguments = ["own", "--from", ".", "--out", "my data/own", "--workers", 2]
    done = run("diverse_mha.cli", "prepare-lm", *arguments, cwd=tmp_path)
    assert "360 train tokens" in done.stdout
    assert "3 different words" in done.stdout

    from fairseq.data import Dictionary, data_utils

    folder = tmp_path / "my data/own/bin"
    words = Dictionary.load(str(folder / "dict.txt"))
    for split, text in texts.items():
        data = data_utils.load_indexed_dataset(str(folder / split), words)
        expected = text.replace("new", "<unk>").splitlines()
        assert [words.string(line) for line in data] == expected
    again = run("diverse_mha.cli", "prepare-lm", *arguments, cwd=tmp_path)
    assert again.stdout.count("(already done)") == 2


@pytest.mark.parametrize("corpus", ["ptb", "wikitext103"])
def test_launchers_work_from_anywhere(tmp_path, corpus):
    done = subprocess.run(
        ["bash", str(ROOT / "data-prep" / f"prepare-{corpus}.sh"), "--help"],
        cwd=tmp_path,
        env={**os.environ, "DIVERSE_MHA_PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and f"usage: data-prep/prepare-{corpus}.sh" in done.stdout
