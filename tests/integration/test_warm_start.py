"""Fine-tuning our models from stock checkpoints, which lack some parameters."""

import re

import pytest
import torch

from tests.integration.conftest import train

pytestmark = pytest.mark.integration

LAST = "checkpoint_last.pt"
SHAPE = """
--encoder-layers 2 --decoder-layers 2 --encoder-attention-heads 2 --decoder-attention-heads 2
""".split()
ONCE = ["--max-update", 1, "--lr", 0]  # an update that does not change loaded parameters


def check(start, folder, done) -> None:
    """Assert that stock parameters are loaded, and that one line names the new parameters."""
    stock, tuned = (
        torch.load(path, weights_only=False)["model"] for path in (start, folder / LAST)
    )
    for name in stock.keys() & tuned.keys():
        assert torch.equal(stock[name], tuned[name]), name
    new = tuned.keys() - stock.keys()
    lines = re.findall(r".*warm start from (.*)", done.stdout + done.stderr)
    assert new and len(lines) == 1 and lines[0].startswith(f"{start}: parts at their initial valu")
    parts = tuple(lines[0].rpartition(": ")[2].split(", "))
    assert all(name.startswith(parts) for name in new)


def test_translation_models_fine_tune_from_a_stock_checkpoint(data, tmp_path):
    start = tmp_path / "stock" / LAST
    stock = ["--arch", "transformer", "--criterion", "label_smoothed_cross_entropy", *SHAPE]
    train(data, start.parent, *stock, *ONCE, "--seed", 8)
    tune = ["--finetune-from-model", start, *SHAPE, *ONCE]
    for arch in ("transformer_routing", "transformer_coda"):
        done = train(data, tmp_path / arch, "--arch", arch, *tune)
        check(start, tmp_path / arch, done)
    # Missing parameters are an error except in fine-tuning.
    resume = ["--arch", "transformer_coda", "--restore-file", start, "--reset-optimizer"]
    done = train(data, tmp_path / "resumed", *resume, *SHAPE, *ONCE, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr[-2000:]
    last = done.stderr.splitlines()[-1]
    printed = (
        f"error: {start}: does not fit the model: .* missing .*cascade.* --finetune-from-model "
    )
    assert re.match(printed, last), last
