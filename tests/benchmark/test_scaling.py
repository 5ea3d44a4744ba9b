"""The series of sizes times the terms it names; nothing here looks at speed."""

import json

import pytest
import torch

from diverse_mha.benchmark import scaling
from diverse_mha.common.errors import UserError


def test_exponent_is_the_power_of_the_law():
    sizes = [4, 8, 16, 32]
    assert scaling.exponent(sizes, [3 * s**2 for s in sizes]) == pytest.approx(2)
    assert scaling.exponent(sizes, [0.5] * 4) == pytest.approx(0)


def test_records_are_those_of_a_forward_pass():
    (first, second) = scaling.make_states(heads=4, layers=2, sentences=3)["encoder"]
    assert first.outputs.shape == (3, 4, scaling.LENGTH, scaling.HEAD_DIM)
    assert first.weights.shape == (3, 4, scaling.LENGTH, scaling.LENGTH)
    torch.testing.assert_close(first.weights.sum(dim=-1), torch.ones(3, 4, scaling.LENGTH))
    assert not torch.equal(first.outputs, second.outputs)


def test_every_term_is_run_forward_and_backward(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(scaling, "START", {"heads": 2, "layers": 1, "sentences": 2})
    path = tmp_path / "series.json"
    assert scaling.run(["--doublings", "1", "--rounds", "1", "--output", str(path)]) == 0
    found = json.loads(path.read_text())
    assert {growing: set(terms) for growing, terms in found.items()} == {
        growing: set(scaling.TERMS) for growing in scaling.START
    }
    assert list(found["heads"]["HSIC"]) == ["2", "4"]
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(rows) == 3 * (2 + len(scaling.TERMS))


@pytest.mark.parametrize("options", [["--rounds", "0"], ["--doublings", "-1"]])
def test_impossible_options_are_refused(options):
    with pytest.raises(
        UserError, match=f"{options[0]}: {options[1]} is not a whole number from 1 up"
    ):
        scaling.run(options)
