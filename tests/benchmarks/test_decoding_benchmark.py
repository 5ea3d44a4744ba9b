"""The benchmark of beam search: it checks before it measures, and says what is impossible."""

import pytest

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


def test_shapes_of_language_models_are_refused():
    with pytest.raises(UserError, match="--shape: invalid choice: 'ptb' .*'base', 'big'"):
        decoding.build_parser().parse_args(["--shape", "ptb"])
