"""Trainings of every family of models on the demo corpus, for system tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

from diverse_mha.common.files import ROOT

DISAGREEMENT = ["--disagreement", "subspace,position,output", "--disagreement-weight", 0.5]
CONTROLS = ["--hsic-weight", 1e-4, "--hsic-samples", 128, "--orthogonality-weight", 0.01]

TRANSLATION = [
    "--task", "exact_translation", "--source-lang", "lm", "--target-lang", "qo",
    "--criterion", "label_smoothed_cross_entropy_with_diversity", "--label-smoothing", 0.1,
    "--share-all-embeddings", "--max-tokens", 400,
]  # fmt: skip
LANGUAGE_MODEL = [
    "--task", "exact_language_modeling", "--tokens-per-sample", 32, "--max-tokens", 400,
    "--criterion", "cross_entropy_with_diversity", "--share-decoder-input-output-embed",
]  # fmt: skip
CLASSIFICATION = [
    "--task", "sentence_classification", "--batch-size", 32,
    "--criterion", "sentence_classification_with_diversity",
]  # fmt: skip
ADAPTIVE = [
    "--task", "exact_language_modeling", "--tokens-per-sample", 32, "--max-tokens", 400,
    "--criterion", "adaptive_loss_with_diversity", "--adaptive-softmax-cutoff", "100,300",
    "--adaptive-input", "--adaptive-input-cutoff", "100,300", "--tie-adaptive-weights",
]  # fmt: skip

# Every family and criterion, with the papers' methods: data, and options besides COMMON.
RUNS = {
    "transformer_disagree_small": ("demo", [*TRANSLATION, *DISAGREEMENT]),
    "transformer_routing_small": ("demo", [*TRANSLATION, *DISAGREEMENT]),
    "transformer_coda_small": ("demo", [*TRANSLATION, *CONTROLS]),
    "transformer_lm_disagree_tiny": ("demo_lm", [*LANGUAGE_MODEL, *CONTROLS, "--drophead", 0.1]),
    "transformer_lm_routing_tiny": ("demo_lm", [*LANGUAGE_MODEL, *DISAGREEMENT]),
    "transformer_lm_coda_tiny": ("demo_lm", [*ADAPTIVE, *DISAGREEMENT]),
    "sentence_classifier_tiny": ("demo_class", [*CLASSIFICATION, *DISAGREEMENT, *CONTROLS]),
}
COMMON = [
    "--user-dir", ROOT / "diverse_mha", "--optimizer", "adam", "--adam-betas", "(0.9,0.98)",
    "--lr", 1e-3, "--lr-scheduler", "inverse_sqrt", "--warmup-updates", 100, "--dropout", 0.1,
    "--clip-norm", 1.0, "--num-workers", 0, "--cpu", "--seed", 1, "--ddp-backend", "legacy_ddp",
    "--no-epoch-checkpoints", "--log-format", "json",
]  # fmt: skip


def prepare_all(out: Path) -> None:
    """Prepare ``demo``, ``demo_lm`` and ``demo_class`` below a folder, from the demo corpus."""
    (out / "demo_class").mkdir(exist_ok=True)
    to = out / "demo_class.tasks"
    for script, *words in (
        ("prepare-demo.sh", "--out", out / "demo"),
        ("prepare-demo-text.sh", "--sentences", 5000, "--out", out / "demo_lm"),
        ("prepare-probing.sh", "--demo", 5000, "--tasks", "bigram_shift", "--out", to),
    ):
        environment = {"DIVERSE_MHA_PYTHON": sys.executable, **os.environ}
        command = ["bash", ROOT / "data-prep" / script, *words]
        subprocess.run([*map(str, command)], env=environment, check=True)
    if not (out / "demo_class/bin").exists():
        (out / "demo_class/bin").symlink_to(to / "bigram_shift/bin")


def training_command(arch: str, data: Path, save_dir: Path, *options) -> list[str]:
    """Return the command line of a training; later options override earlier ones."""
    folder, own = RUNS[arch]
    arguments = [
        sys.executable, "-m", "fairseq_cli.train", data / folder / "bin", "--arch", arch,
        *COMMON, *own, "--save-dir", save_dir, *options,
    ]  # fmt: skip
    return [str(word) for word in arguments]


def train_and_watch(command: list[str]) -> list[dict]:
    """Run a training; return a record for each line of the log that has figures.

    Each record has fairseq's values, ``phase`` (train_inner, train, valid) and ``rss``, the
    resident memory of the process in bytes.
    """
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT))
    run = subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    records, lines = [], []
    for line in run.stdout:
        lines.append(line)
        head, brace, rest = line.partition("{")
        phase = head.split(" | ")[-2].strip() if head.count(" | ") >= 3 else ""
        if brace and phase in ("train_inner", "train", "valid"):
            records.append({**json.loads(brace + rest), "phase": phase, "rss": _rss(run.pid)})
    assert run.wait() == 0, "".join(lines[-60:])
    return records


def _rss(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
