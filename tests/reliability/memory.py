"""Peak memory of a training as a user starts it, beside fairseq's own of the same shape."""

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from diverse_mha.common.places import ROOT

WORDS = 4000
ALLOWED = 1.3  # times the peak of fairseq's own training
SHAPE = """--share-all-embeddings --encoder-layers 2 --decoder-layers 2
--encoder-embed-dim 64 --decoder-embed-dim 64 --encoder-ffn-embed-dim 128
--decoder-ffn-embed-dim 128 --encoder-attention-heads 4 --decoder-attention-heads 4"""
COMMON = """--source-lang src --target-lang tgt --max-tokens 4096 --label-smoothing 0.1
--optimizer adam --lr 1e-3 --lr-scheduler inverse_sqrt --warmup-updates 100 --num-workers 0
--cpu --seed 1 --no-save --disable-validation --log-interval 10"""


def make_data(folder: Path, pairs: int) -> Path:
    """Binarise pairs of random words, 3 to 60 a side: hardly two batches have one shape."""
    draw = random.Random(1)
    for split, count in (("train", pairs), ("valid", 10)):
        for side in ("src", "tgt"):
            lines = [
                " ".join(f"w{draw.randrange(WORDS)}" for _ in range(draw.randint(3, 60)))
                for _ in range(count)
            ]
            (folder / f"{split}.{side}").write_text("\n".join(lines) + "\n")
    words = ["--source-lang", "src", "--target-lang", "tgt", "--joined-dictionary"]
    for split in ("train", "valid"):
        words += [f"--{split}pref", str(folder / split)]
    command = [sys.executable, "-m", "fairseq_cli.preprocess", *words]
    subprocess.run(
        [*command, "--destdir", str(folder / "bin")], check=True, stdout=subprocess.DEVNULL
    )
    return folder / "bin"


def stock(data: Path, updates: int) -> int:
    """Train fairseq's ``transformer`` with fairseq-train; its peak resident memory in bytes."""
    arch = "--arch transformer --criterion label_smoothed_cross_entropy"
    command = [sys.executable, "-m", "fairseq_cli.train", str(data)]
    return _peak([*command, *_words(arch, updates)])


def ours(data: Path, updates: int, more: Sequence[str] = ()) -> int:
    """Train ``transformer_disagree`` with scripts/train.sh; its peak in bytes."""
    arch = "--arch transformer_disagree --criterion label_smoothed_cross_entropy_with_diversity"
    command = ["bash", str(ROOT / "scripts/train.sh"), str(data)]
    return _peak([*command, *_words(arch, updates), "--task", "exact_translation", *more])


def _words(arch: str, updates: int) -> list[str]:
    return f"{arch} {SHAPE} {COMMON} --max-update {updates}".split()


def _peak(command: list[str]) -> int:
    settings = {"OMP_NUM_THREADS": "1", "DIVERSE_MHA_PYTHON": sys.executable}
    # What a shell of the tests may have exported must not decide the outcome.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    process = subprocess.Popen(
        command, env=kept | settings, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0 and "done training" in said, said[-3000:]
    return usage.ru_maxrss * 1024
