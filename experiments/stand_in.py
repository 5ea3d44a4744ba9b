"""Makes corpora for the smoke scale from the demo corpus.

``language-model FOLDER`` and ``probing FOLDER`` prepare ``demo`` below the folder, then ``demo_lm``
or ``probing`` from its sentences.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import ROOT
from diverse_mha.corpora.probing import TASKS
from diverse_mha.corpora.text import read_lines, write_lines
from experiments.scales import CORPORA, DATA

SPLITS = {"train": "tr", "valid": "va", "test": "te"}


def main(what: str, folder: str) -> int:
    """Prepare a corpus."""
    script, *words = CORPORA["iwslt17_de_en"]["smoke"].prepare
    run_script(script, *(word.replace(DATA, folder) for word in words))
    {"language-model": _language_model, "probing": _probing}[what](Path(folder))
    return 0


def run_script(name: str, *words: str) -> None:
    """Run a script of ``data-prep/`` with this Python."""
    environment = {"DIVERSE_MHA_PYTHON": sys.executable, **os.environ}
    done = subprocess.run(["bash", str(ROOT / "data-prep" / name), *words], env=environment)
    if done.returncode:
        raise UserError(f"data-prep/{name} failed (exit code {done.returncode})")


def _sentences(data: Path, split: str) -> list[list[str]]:
    return [line.split() for line in read_lines(data / f"demo/tok/{split}.qo")]


def _language_model(data: Path) -> None:
    text = data / "demo_lm.text"
    text.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        write_lines(text / f"{split}.txt", map(" ".join, _sentences(data, split)))
    run_script("prepare-own-text.sh", "--from", str(text), "--out", str(data / "demo_lm"))


def probing_lines(split: str, sentences: Sequence[list[str]]) -> list[str]:
    """Return lines of split, label (a class of length) and sentence, separated by tabs."""
    lines = []
    for words in sentences:
        label = str(sum(len(words) >= edge for edge in (6, 8, 10, 12, 14)))
        lines.append("\t".join((SPLITS[split], label, " ".join(words))))
    return lines


def _probing(data: Path) -> None:
    text = data / "probing.text"
    text.mkdir(parents=True, exist_ok=True)
    for task in TASKS:
        lines = [line for split in SPLITS for line in probing_lines(split, _sentences(data, split))]
        write_lines(text / f"{task}.txt", lines)
    run_script("prepare-probing.sh", "--from", str(text), "--out", str(data / "probing"))


if __name__ == "__main__":
    run_cli(lambda: main(*sys.argv[1:]))
