"""The benchmark of beam search: it checks before it measures, and says what is impossible."""

import pytest
import torch

from benchmarks import decoding
from diverse_mha.common.errors import UserError

SIZES = "--shape tiny --beam 2 --sentences 3 --length 4 --rounds 1 --warm-up 0 --threads 1"


def test_table_has_a_row_for_each_variant(capsys, tmp_path):
    output = tmp_path / "result.json"
    arguments = [*SIZES.split(), "--variants", "plain,coda", "--output", str(output)]
    assert decoding.main(arguments) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == ["stock", "plain", "coda"]
    assert output.is_file()


def test_other_hypotheses_are_refused(monkeypatch, capsys):
    honest = decoding.Decoder.translate
    calls = []

    def biased(self, batch):
        result = honest(self, batch)
        calls.append(self)
        if len(calls) == 3:  # expected, stock, then plain
            result[0][0]["score"] = result[0][0]["score"] + 0.01
        return result

    monkeypatch.setattr(decoding.Decoder, "translate", biased)
    assert decoding.main([*SIZES.split(), "--variants", "plain"]) == 1
    captured = capsys.readouterr()
    assert "plain: hypothesis 0 of sentence 0: scores differ by 0.01" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("option", ["--beam", "--sentences", "--length", "--rounds", "--threads"])
def test_impossible_numbers_are_named(option):
    with pytest.raises(UserError, match=f"{option}: 0 is not a whole number from 1 up"):
        decoding.main([option, "0"])


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--length", "1024", "--length 1024: must be below 1024, the positions"),
        ("--seed", str(2**64), f"--seed {2**64}: must be below 2\\*\\*64"),
    ],
)
def test_numbers_that_are_too_large_are_refused(option, value, message):
    with pytest.raises(UserError, match=message):
        decoding.main([*SIZES.split(), option, value])


def test_a_gpu_that_is_too_small(monkeypatch):
    def measure(args):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(decoding, "measure", measure)
    with pytest.raises(UserError, match="--sentences 3: .*does not hold.*take less"):
        decoding.main(SIZES.split())


def test_shapes_of_language_models_are_refused():
    with pytest.raises(UserError, match="--shape: invalid choice: 'ptb' .*'base', 'big'"):
        decoding.build_parser().parse_args(["--shape", "ptb"])


def test_unknown_variants_are_named():
    with pytest.raises(UserError, match="unknown 'fast'"):
        decoding.main(["--variants", "fast"])
