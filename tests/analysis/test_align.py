"""``diverse-mha align``: subwords to words, error rates, the choice of a head, the command."""

import re

import pytest
import torch

from diverse_mha.cli import run
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.align import read_gold
from diverse_mha.measures.alignment import agreement, alignment_error, best_sources, word_places


def test_subwords_are_joined_to_words():
    assert word_places(["un@@", "der@@", "line", "x"], "subword_nmt") == [0, 0, 0, 1]
    assert word_places(["▁un", "der", "▁x", "▁"], "sentencepiece") == [0, 0, 1, 2]
    assert word_places(["a@@", "▁b", "c"], None) == [0, 1, 2]
    weights = torch.tensor(
        [
            [0.30, 0.30, 0.40, 0.0],  # the two tokens of word 0 weigh more together
            [0.10, 0.10, 0.20, 0.6],
            [0.00, 0.10, 0.60, 0.3],
        ]
    )
    assert best_sources(weights, [0, 0, 1, 2], [0, 1, 1]).tolist() == [0, 2]
    both = best_sources(torch.stack([weights, weights.flip(1)]), [0, 0, 1, -1], [0, 1, 2])
    assert both.tolist() == [[0, 0, 1], [0, 0, 0]], "the last token is of no word"


def test_error_rate_of_och_and_ney():
    found = [{(0, 0), (1, 1), (2, 3)}, {(0, 0)}]
    sure, possible = [{(0, 0), (1, 2)}, {(0, 0)}], [{(1, 1)}, set()]
    error, precision, recall = alignment_error(found, sure, possible)
    assert error == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert (precision, recall) == (pytest.approx(3 / 4), pytest.approx(2 / 3))


def test_the_head_that_others_agree_with_has_the_highest_agreement():
    truth = torch.randint(9, (200,), generator=torch.Generator().manual_seed(1))
    heads = truth.repeat(5, 1)
    for row, wrong in enumerate((80, 20, 120, 200, 60)):
        places = torch.randperm(200, generator=torch.Generator().manual_seed(row))[:wrong]
        heads[row, places] += 9 * (row + 1)
    heads[3] = 0
    values = agreement(heads)
    assert int(values.argmax()) == 1 and int(values.argmin()) == 3
    assert float(values[0]) == pytest.approx(
        sum(float((heads[0] == heads[k]).double().mean()) for k in range(1, 5)) / 4
    )
    assert agreement(heads[:1]).tolist() == [1]


def test_gold_is_read_with_possible_links(tmp_path):
    path = tmp_path / "gold"
    path.write_text("0-0 1p2\n\n3-1\n")
    assert read_gold(path) == [({(0, 0)}, {(1, 2)}), (set(), set()), ({(3, 1)}, set())]
    path.write_text("0-0\n1:2\n")
    with pytest.raises(UserError, match=r"line 2: '1:2' is no link"):
        read_gold(path)


@pytest.mark.integration
def test_every_target_word_is_aligned(checkpoint, data, tmp_path, capsys):
    assert run(["align", str(checkpoint), str(data), "--cpu"]) == 0
    out, said = capsys.readouterr()
    lines = out.splitlines()
    assert len(lines) == 40 and re.search(
        r"aligned by layer \d, head \d \(agreement 0\.\d+\)", said
    )
    for line in lines:
        targets = [int(link.split("-")[1]) for link in line.split()]
        assert sorted(targets) == list(range(len(targets))) and 6 <= len(targets) <= 12
    gold = tmp_path / "gold"
    gold.write_text(out)
    words = ["align", str(checkpoint), str(data), "--cpu", "--gold", str(gold)]
    assert run([*words, "--report"]) == 0
    table = capsys.readouterr().out.splitlines()
    (chosen,) = [line.split() for line in table if line.endswith("chosen")]
    assert chosen[3:6] == ["0.000", "1.000", "1.000"] and len(table) == 2 + 2 * 4 + 2 + 2
    assert [line.split()[1] for line in table].count("average") == 2
    other = "2" if chosen[1] == "1" else "1"
    assert run([*words, "--head", f"{chosen[0]}.{other}"]) == 0
    assert f"head {other} (AER 0." in capsys.readouterr().err
