"""``python -m benchmarks.others``: every tool trains on the same batches, or is named."""

import re
from types import SimpleNamespace

import pytest
import torch

from benchmarks import others


def test_the_model_of_hugging_face_has_the_shape():
    pytest.importorskip("transformers")
    torch.manual_seed(1)
    model, _ = others._marian()
    ours = others.Trainee(
        *(others.VARIANTS["plain"], others.SHAPE.options()),
        others.stand_in_task(others.SHAPE.vocabulary),
        device=torch.device("cpu"), precision="fp32", seed=1,
    )  # fmt: skip
    own = sum(p.numel() for p in model.parameters() if p.requires_grad)
    # Marian has a bias for every word less the norms that fairseq's encoder may end in.
    assert own == pytest.approx(ours.parameters(), rel=1e-2)


@pytest.mark.integration
def test_all_tools_are_in_the_table(capsys, monkeypatch):
    threads = torch.get_num_threads()
    monkeypatch.setattr(others, "_joey", None)
    find = SimpleNamespace(find_spec=lambda name: name != "joeynmt")
    monkeypatch.setattr(others, "importlib", SimpleNamespace(util=find))  # transformers asks, too
    try:
        assert others.main(["--rounds", "1"]) == 0
    finally:
        torch.set_num_threads(threads)
    printed = capsys.readouterr()
    assert "JoeyNMT is left out: pip install joeynmt" in printed.err
    rows = re.findall(r"^\| (.+?) \| [\d,.]+ \(.+\) \| [\d,.]+ \(.+\) \|$", printed.out, re.M)
    assert rows == ["this package", "fairseq", "Hugging Face (Marian)"]
