"""``diverse-mha align``: subwords to words, error rates, the choice of a head, the command."""

import json
import re
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from diverse_mha.attention import HeadStates
from diverse_mha.cli import run
from diverse_mha.common.errors import UserError
from diverse_mha.corpora.subwords import POST_PROCESS
from diverse_mha.corpora.text import write_lines
from diverse_mha.evaluation import align
from diverse_mha.evaluation.align import read_gold
from diverse_mha.measures.alignment import agreement, alignment_error, best_sources, word_places
from tests.corpora.test_own import NOTE


def test_subword_alignments_are_merged_to_words():
    assert word_places(["un@@", "der@@", "line", "x"], "subword_nmt") == [0, 0, 0, 1]
    assert word_places(["▁un", "der", "▁x", "▁"], "sentencepiece") == [0, 0, 1, -1]
    assert word_places(["un", "der", "▁", "x", "▁", "▁y"], "sentencepiece") == [0, 0, 1, 1, 2, 2]
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


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece", "none"])
def test_alignments_print_words_of_the_text_not_the_dictionary(kind, tmp_path, monkeypatch, capsys):
    """A subword that the dictionary lacks neither begins a word nor ends one."""
    text = {
        "bpe": ("Q@@ u@@ ad ad", "ad |@@ | ad"),
        "sentencepiece": ("▁Q u ad ▁ad", "▁ad ▁| | ▁ad"),
        "none": ("Quad ad", "ad || ad"),
    }[kind]
    words = Dictionary()
    for word in ("ad",) if kind == "none" else ("ad", "u@@", "▁ad", "u"):
        words.add_symbol(word)
    for folder in ("bin", "bpe"):
        (tmp_path / folder).mkdir()
    for place, language in enumerate(("de", "en")):
        words.save(str(tmp_path / f"bin/dict.{language}.txt"))
        write_lines(tmp_path / f"bpe/test.{language}", [text[place]])
    if kind != "none":
        (tmp_path / "bin/corpus.json").write_text(json.dumps(NOTE | {"subwords": kind}))
    source, target = (words.encode_line(line, add_if_not_exist=False).long() for line in text)
    weights = torch.eye(len(target), len(source))[None, None]
    monkeypatch.setattr(align, "head_states", lambda *_: {"cross": [HeadStates(weights=weights)]})
    inputs = {"src_tokens": source[None]}
    sample = {"id": torch.tensor([0]), "net_input": inputs, "target": target[None]}
    monkeypatch.setattr(align, "iterate_batches", lambda *_, **__: [sample])
    task = SimpleNamespace(cfg=SimpleNamespace(source_lang="de", target_lang="en"))
    task.source_dictionary = task.target_dictionary = words
    task.dataset = lambda subset: [0]
    decoder = SimpleNamespace(layers=[0], padding_idx=words.pad())
    model = SimpleNamespace(heads={"cross": 1}, kept_heads={"cross": [(1,)]}, decoder=decoder)
    aligner = align.Aligner(SimpleNamespace(model=model, task=task), str(tmp_path / "bin"))
    (found,) = aligner.split("test")
    assert found.sources == 2 and found.choices.size(1) == 3 and found.known
    assert capsys.readouterr().err == ""
    (tmp_path / "bpe/test.en").write_text("ad ad ad ad\n")
    aligner._kinds = ["sentencepiece"] * 2  # as of Japanese
    aligner.split("test")
    assert "note: most sentences of test have one word" in capsys.readouterr().err
    aligner._kinds = [POST_PROCESS.get(kind)] * 2
    (tmp_path / "bpe/test.en").unlink()
    assert aligner.split("test")[0].known is (kind == "none")
    assert ("note: 1 sentences of test have unknown" in capsys.readouterr().err) is (kind != "none")


def test_alignment_error_rate_follows_och_and_ney():
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
