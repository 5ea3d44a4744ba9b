"""Fixtures: tiny data and a tiny model; and functions that run commands as users do."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from diverse_mha.common.files import ROOT
from experiments.scales import CORPORA, DATA
from tests import warm
from tests.corpora import scripts
from tests.shared import made_once

PLUGIN = ROOT / "diverse_mha"

TRAIN = """
--user-dir {plugin} --task exact_translation --arch transformer_disagree_tiny
--encoder-embed-dim 32 --encoder-ffn-embed-dim 48 --decoder-embed-dim 32
--decoder-ffn-embed-dim 48 --share-all-embeddings
--criterion label_smoothed_cross_entropy_with_diversity --label-smoothing 0.1
--optimizer adam --lr 1e-3 --lr-scheduler inverse_sqrt --warmup-updates 10
--max-tokens 300 --num-workers 0 --cpu --seed 3 --log-format simple --log-interval 1
"""


def run(*command, check: bool = True, fresh: bool = False, **kwargs) -> subprocess.CompletedProcess:
    """Run the Python module ``command[0]`` with arguments; return the finished process.

    With ``fresh``, the module runs in a new Python process. Otherwise the warm server forks one.
    """
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT))
    environment |= {} if fresh else warm.server().variables
    environment.pop("PYTHONSAFEPATH", None)  # set by scripts/test.sh
    done = subprocess.run(
        [sys.executable if fresh else warm.server().python, "-m", *map(str, command)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        **kwargs,
    )
    if check:
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


#: Libraries that take long to import, and that text does not need.
SLOW = {"scipy", "sklearn", "tensorboardX", "torch._dynamo", "torch.onnx", "transformers"}


def slow_imports(monkeypatch, *command, **kwargs) -> set[str]:
    """Run a command in a new Python process; return the slow libraries that it imports."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    done = run(*command, fresh=True, **kwargs)
    imported = re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.M)
    assert "fairseq.tasks" in imported
    return SLOW & {*imported}


def train(data, save_dir, *options, **kwargs) -> subprocess.CompletedProcess:
    """Run ``fairseq-train`` with a tiny model. ``options`` replace the defaults in ``TRAIN``."""
    common = TRAIN.format(plugin=PLUGIN).split()
    return run("fairseq_cli.train", data, *common, "--save-dir", save_dir, *options, **kwargs)


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """Folder of binarised pairs of a digit string and its reversal (train, valid and test)."""
    return made_once(tmp_path_factory, "digits", _write_digits) / "bin"


def _write_digits(folder):
    generator = random.Random(1)
    for split, count in (("train", 120), ("valid", 20), ("test", 10)):
        lines = [
            " ".join(generator.choice("0123456789") for _ in range(generator.randint(3, 9)))
            for _ in range(count)
        ]
        (folder / f"{split}.src").write_text("\n".join(lines) + "\n")
        (folder / f"{split}.tgt").write_text("\n".join(line[::-1] for line in lines) + "\n")
    prefixes = [x for s in ("train", "valid", "test") for x in (f"--{s}pref", folder / s)]
    languages = ["--source-lang", "src", "--target-lang", "tgt", "--joined-dictionary"]
    run("fairseq_cli.preprocess", *languages, *prefixes, "--destdir", folder / "bin")


@pytest.fixture(scope="session")
def trained(data, tmp_path_factory) -> Path:
    """Folder of a model trained for two epochs with every disagreement term."""
    terms = ["--disagreement", "subspace,position,output", "--disagreement-on", "encoder,cross"]

    def make(folder):
        done = train(data, folder, "--max-epoch", 2, *terms)
        (folder / "log").write_text(done.stdout + done.stderr)

    return made_once(tmp_path_factory, "trained", make)


#: Arguments of ``diverse-mha reproduce`` for a table with one row.
TABLE = ["yun2021", "table-7", "--scale", "smoke", "--rows", "baseline", "--updates", "30"]


def fill_table(folder) -> None:
    """Run ``reproduce`` with :data:`TABLE`, write its output to ``log``, and prepare demo data."""
    done = run("diverse_mha.cli", "reproduce", *TABLE, "--out", folder)
    (folder / "log").write_text(done.stdout + done.stderr)
    # Prepare the corpus here: tests that share the folder would prepare it at the same time.
    _, *words = CORPORA["iwslt17_de_en"]["smoke"].prepare
    scripts.run("demo", *(word.replace(DATA, f"{folder}/smoke/data") for word in words), cwd=folder)
