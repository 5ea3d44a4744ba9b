"""``diverse-mha align``: word alignments, their error rate and the choice of a head."""

import json
import math
import random
import re
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from hypothesis import given
from hypothesis import strategies as st

from diverse_mha.attention import HeadStates
from diverse_mha.cli import run
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import ROOT
from diverse_mha.corpora.subwords import POST_PROCESS
from diverse_mha.corpora.text import write_lines
from diverse_mha.evaluation import aligner as module
from diverse_mha.evaluation.align import Gold
from diverse_mha.measures.alignment import (
    SYMMETRISATIONS,
    agreement,
    alignment_error,
    best_sources,
    consistency,
    merge_subwords,
    symmetrise,
    word_places,
)
from tests.corpora.test_own import NOTE


def test_head_auto_is_documented(capsys):
    with pytest.raises(SystemExit):
        run(["align", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "auto: the highest consistency on valid" in text
    page = (ROOT / "docs/align.md").read_text()
    assert "| `auto` |" in page.partition("which `--head` also takes")[2].partition("##")[0]


def test_subword_alignments_are_merged_to_words():
    assert word_places(["un@@", "der@@", "line", "x"], "subword_nmt") == [0, 0, 0, 1]
    assert word_places(["▁un", "der", "▁x", "▁"], "sentencepiece") == [0, 0, 1, -1]
    assert word_places(["un", "der", "▁", "x", "▁", "▁y"], "sentencepiece") == [0, 0, 1, 1, 2, 2]
    assert word_places(["a@@", "▁b", "c"], None) == [0, 1, 2]
    weights = torch.tensor(
        [
            [0.30, 0.30, 0.40, 0.0],  # the two tokens of word 0 have more weight together
            [0.10, 0.10, 0.20, 0.6],
            [0.00, 0.10, 0.60, 0.3],
        ]
    )
    assert best_sources(weights, [0, 0, 1, 2], [0, 1, 1]).tolist() == [0, 2]
    both = best_sources(torch.stack([weights, weights.flip(1)]), [0, 0, 1, -1], [0, 1, 2])
    assert both.tolist() == [[0, 0, 1], [0, 0, 0]], "a token that belongs to no word is not aligned"


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece", "none"])
def test_aligned_words_are_those_of_the_text(kind, tmp_path, capsys):
    """A subword that is not in the dictionary must not change the word boundaries."""
    text = {
        "bpe": ("Q@@ u@@ ad ad", "ad |@@ | ad"),
        "sentencepiece": ("▁Q u ad ▁ad", "▁ad ▁| | ▁ad"),
        "none": ("Quad ad", "ad || ad"),
    }[kind]
    words = Dictionary()
    for word in ("ad",) if kind == "none" else ("ad", "u@@", "▁ad", "u"):
        words.add_symbol(word)
    aligner = stub(tmp_path, words, text, kind)
    (found,) = aligner.split("test")
    assert found.known and capsys.readouterr().err == ""
    assert (found.sources, found.targets) == (["Quad", "ad"], ["ad", "||", "ad"])
    if kind != "sentencepiece":
        aligner._kinds = ["sentencepiece"] * 2  # the text has no \u2581 at all, as in Japanese
        aligner.split("test")
        assert "note: most sentences of test have no spaces" in capsys.readouterr().err
    aligner._kinds = [POST_PROCESS.get(kind)] * 2
    (tmp_path / "bpe/test.en").write_text("ad ad ad u\n")
    assert aligner.split("test")[0].known is (kind == "none"), "text of another corpus is not used"
    capsys.readouterr()
    (tmp_path / "bpe/test.en").unlink()
    assert aligner.split("test")[0].known is (kind == "none")
    assert ("note: 1 sentences of test have unknown" in capsys.readouterr().err) is (kind != "none")


def stub(folder, words, text, kind="none", weights=None):
    """Return an aligner for a model with one head and a split with one sentence."""
    for name in ("bin", "bpe"):
        (folder / name).mkdir()
    for place, language in enumerate(("de", "en")):
        words.save(str(folder / f"bin/dict.{language}.txt"))
        write_lines(folder / f"bpe/test.{language}", [text[place]])
    if kind != "none":
        (folder / "bin/corpus.json").write_text(json.dumps(NOTE | {"subwords": kind}))
    source, target = (words.encode_line(line, add_if_not_exist=False).long() for line in text)
    weights = torch.eye(len(target), len(source)) if weights is None else weights
    states = {"cross": [HeadStates(weights=weights[None, None])]}
    pad = torch.tensor([words.pad()] * 2)
    sample = {"id": torch.tensor([0]), "net_input": {"src_tokens": source[None]}}
    sample["target"] = torch.cat([target, pad])[None]
    task = SimpleNamespace(cfg=SimpleNamespace(source_lang="de", target_lang="en"))
    task.source_dictionary = task.target_dictionary = words
    task.dataset = lambda subset: [0]
    model = SimpleNamespace(
        heads={"cross": 1}, kept_heads={"cross": [(1,)]}, decoder=SimpleNamespace(layers=[0])
    )
    loaded = SimpleNamespace(path="model.pt", model=model, task=task, states=lambda *_: states)
    loaded.batches = lambda *_, **__: [sample]
    return module.Aligner(loaded, str(folder / "bin"))


def test_candidates_named_next_align_by_the_attention_of_the_next_step(tmp_path):
    words = Dictionary()
    for word in "abc":
        words.add_symbol(word)
    weights = torch.eye(4).roll(1, dims=0)  # row t + 1 attends to source word t
    aligner = stub(tmp_path, words, ("a b c", "c b a"), weights=weights)
    (found,) = aligner.split("test")
    rows = dict(zip(map(str, aligner.candidates), found.choices.tolist(), strict=True))
    assert rows["1.1.next"] == rows["1.average.next"] == [0, 1, 2]
    assert rows["1.1"] == rows["1.average"] == [0, 0, 1]
    assert aligner.choose("--head", "1.average.next") == 3
    with pytest.raises(UserError, match=r"--alignment-head 1.1.next: .* give auto, or LAYER.HEAD"):
        aligner.choose("--alignment-head", "1.1.next", shifted=False)


@pytest.mark.parametrize(
    "source, target",
    [
        ("", ""),
        ("a", ""),
        ("", "a"),
        ("</s> a <pad> </s>", "<pad> a </s> <pad>"),
        ("<unk> zzz <s>", "<unk> <unk>"),
        ("\u2581 \u2581", "@@ @@"),
        ("a@@ </s> b@@", "b@@"),
        ("&apos; &quot; @-@ a&amp;b", "&#124; a"),
    ],
)
@pytest.mark.parametrize("kind", ["bpe", "sentencepiece", "none"])
def test_all_words_of_unusual_lines_are_aligned(source, target, kind, tmp_path):
    """Special tokens such as </s> are ordinary words if a text contains them (fairseq #1881)."""
    words = Dictionary()
    for word in ("a", "b") if kind == "none" else ("a", "b", "a@@"):
        words.add_symbol(word)
    aligner = stub(tmp_path, words, (source, target), kind)
    (found,) = aligner.split("test")
    if kind == "none":
        assert (found.sources, found.targets) == (source.split(), target.split())
    count = len(found.targets) if found.sources else 0
    assert found.known and found.choices.shape == (4, count)
    for row in range(4):
        for s, t in found.links(row):
            assert s < len(found.sources) and t < len(found.targets)


def test_alignment_error_rate_follows_och_and_ney():
    found = [{(0, 0), (1, 1), (2, 3)}, {(0, 0)}]
    sure, possible = [{(0, 0), (1, 2)}, {(0, 0)}], [{(1, 1)}, set()]
    error, precision, recall = alignment_error(found, sure, possible)
    assert error == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert (precision, recall) == (pytest.approx(3 / 4), pytest.approx(2 / 3))


def test_the_head_that_links_most_like_the_others_has_the_highest_agreement():
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


def test_consistency_is_low_for_heads_that_attend_to_a_single_position():
    """Agreement alone would choose one of two heads that attend to the end of the sentence."""
    generator = torch.Generator().manual_seed(1)
    words = torch.randint(40, (600,), generator=generator)
    aligned = words.clone()
    wrong = torch.rand(600, generator=generator) < 0.3
    aligned[wrong] = torch.randint(40, (int(wrong.sum()),), generator=generator)
    end = torch.full((600,), 40)
    assert agreement(torch.stack([aligned, end, end])).argmax() != 0
    values = [consistency(sources, words) for sources in (words, aligned, end)]
    assert values[0] > 0.9 > values[1] > 0.4 and values[2] < 0.05
    chance = torch.randint(40, (600,), generator=generator)
    assert consistency(chance, words) < 0.05
    assert consistency(torch.arange(600), torch.arange(600)) == 0, (
        "word pairs that occur once do not count"
    )
    links = [(0, 0), (0, 0), (0, 1), (1, 1), (1, 1)]
    expected = (1 / 3 + 1 / 3 + 0 / 3 + 1 / 2 + 1 / 2) / 5
    assert consistency(*torch.tensor(links).T) == pytest.approx(expected)


def literal(forward, backward, method, sources, targets):
    """Combine the links of two directions, step by step as in Koehn et al. 2003.

    e is the index of a target word, f that of a source word.
    """
    matrix = [[{(f, e)} <= forward & backward for f in range(sources)] for e in range(targets)]

    def add(e_new, f_new, among, test):
        e_free, f_free = not any(matrix[e_new]), not any(row[f_new] for row in matrix)
        if test([e_free, f_free]) and (f_new, e_new) in among and not matrix[e_new][f_new]:
            matrix[e_new][f_new] = True
            return True
        return False

    added = method.startswith("grow")
    while added:
        added = False
        for e in range(targets):
            for f in range(sources):
                if not matrix[e][f]:
                    continue
                for e_step, f_step in (
                    (-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)
                ):  # fmt: skip
                    e_new, f_new = e + e_step, f + f_step
                    if 0 <= e_new < targets and 0 <= f_new < sources:
                        added |= add(e_new, f_new, forward | backward, any)
    if "final" in method:
        for among in (forward, backward):
            for e in range(targets):
                for f in range(sources):
                    add(e, f, among, all if method.endswith("and") else any)
    return {(f, e) for e in range(targets) for f in range(sources) if matrix[e][f]}


@pytest.mark.parametrize("method", SYMMETRISATIONS)
def test_links_of_both_directions_are_combined_as_in_koehn_et_al(method):
    generator = random.Random(1)
    for _ in range(200):
        sources, targets = generator.randint(0, 9), generator.randint(0, 9)
        near = lambda at, size: min(max(at + generator.randint(-2, 2), 0), size - 1)  # noqa: E731
        forward = {(near(t, sources), t) for t in range(targets) if sources}
        backward = {(s, near(s, targets)) for s in range(sources) if targets}
        expected = literal(forward, backward, method, sources, targets)
        if method == "union":
            expected = forward | backward
        assert symmetrise(forward, backward, method) == expected


@given(st.lists(st.text("a@\u2581&;", min_size=1, max_size=4), max_size=8))
def test_tokens_are_assigned_to_the_merged_words(tokens):
    for kind in (None, "subword_nmt", "sentencepiece"):
        places = word_places(tokens, kind)
        words = merge_subwords(tokens, places, kind)
        assert len(words) == max(places, default=-1) + 1
        assert len(words) == len(tokens) or kind


def test_possible_links_of_gold_alignments_are_read(tmp_path):
    path = tmp_path / "gold"
    path.write_text("0-0 1p2\n\n3-1\n")
    assert Gold(path).lines == [({(0, 0)}, {(1, 2)}), (set(), set()), ({(3, 1)}, set())]
    path.write_text("1-1 2p3\n")
    gold = Gold(path, first=1)
    assert gold.lines == [({(0, 0)}, {(1, 2)})]
    assert gold.score({0: {(0, 0), (1, 2)}}) == (0, 1, 1), (
        "a possible link does not count as an error"
    )
    assert gold.score({0: {(1, 2)}})[0] == pytest.approx(1 - 1 / 2)
    path.write_text("0-0\n1:2\n")
    with pytest.raises(UserError, match=r"line 2: '1:2' is not a link"):
        Gold(path)


def split_of(*sizes):
    """Return a stub of a split whose sentences have these numbers of source and target words."""
    return SimpleNamespace(count=len(sizes), sentences=range(len(sizes)), words=sizes.__getitem__)


@pytest.mark.parametrize(
    ("first", "text", "null"),
    [
        (1, "1-1 0-2 2p3\n4-0 3-2\n", "2 links to the empty word (NULL), such as 0-2 in line 1,"),
        (1, "1-1 -1-2 2p3\n4--1 3-2\n", "2 links to the empty word (NULL), such as -1-2 in li"),
        (0, "0-0 -1-1 1p2\n3--1 2-1\n", "2 links to the empty word (NULL), such as -1-1 in li"),
        (0, "0-0 1p2\n2-1 -1p-1\n", "1 link to the empty word (NULL), such as -1p-1 in line 2,"),
    ],
)
def test_links_to_the_empty_word_are_left_out_and_named(tmp_path, capsys, first, text, null):
    (tmp_path / "gold").write_text(text)
    gold = Gold(tmp_path / "gold", first)
    gold.check(split_of((3, 3), (4, 2)))
    assert gold.lines == [({(0, 0)}, {(1, 2)}), ({(2, 1)}, set())]
    assert null in capsys.readouterr().err


@pytest.mark.parametrize(
    ("first", "text", "message"),
    [
        # Without a link to the last word, nothing tells NULL links from links to the first word.
        (1, "1-1 0-2\n1-0 3-1\n", "line 1: 0-2 would link to NULL, but .* give --gold-from 0"),
        (1, "1-1 0-2\n0-0 4-1\n", "line 2: 0-0 would link to NULL, but .* give --gold-from 0"),
        (1, "1-1 2-2\n4-2 6-1\n", "line 2: link 6-1 is outside .* 4 source and 2 target words; gi"),
        (0, "1-1 3-3\n4-2 3-1\n", "line 1: link 3-3 is outside .*; if words count from 1, add --g"),
        (0, "0-0 2-2\n3-1 9-9\n", "line 2: link 9-9 is outside .* 2 target words; give alignments"),
        (0, "\n\n", "has no link of these sentences; give alignments such as"),
        (1, "0-1\n3-0\n", "has no link of these sentences; give alignments such as"),
    ],
)
def test_gold_alignments_that_fit_no_words_are_refused(tmp_path, first, text, message):
    (tmp_path / "gold").write_text(text)
    with pytest.raises(UserError, match=message):
        Gold(tmp_path / "gold", first).check(split_of((3, 3), (4, 2)))


def test_rates_of_no_links_are_undefined():
    found, possible = [{(0, 0), (1, 2)}], [{(0, 0)}]
    error, precision, recall = alignment_error(found, [set()], possible)
    assert (error, precision) == (1 / 2, 1 / 2) and math.isnan(recall)
    error, precision, recall = alignment_error([set()], possible, [set()])
    assert (error, recall) == (1, 0) and math.isnan(precision)
    assert all(map(math.isnan, alignment_error([set()], [set()], possible)))


@pytest.mark.integration
def test_every_target_word_is_aligned(checkpoint, data, tmp_path, capsys):
    assert run(["align", str(checkpoint), str(data), "--cpu"]) == 0
    out, printed = capsys.readouterr()
    lines = out.splitlines()
    assert len(lines) == 40 and re.search(
        r"aligned by layer \d, .*head.* \(consistency 0\.\d+\)", printed
    )
    for line in lines:
        targets = [int(link.split("-")[1]) for link in line.split()]
        assert sorted(targets) == list(range(len(targets))) and 6 <= len(targets) <= 12
    gold = tmp_path / "gold"
    gold.write_text(out)
    arguments = ["align", str(checkpoint), str(data), "--cpu", "--gold", str(gold)]
    assert run([*arguments, "--report"]) == 0
    table = capsys.readouterr().out.splitlines()
    # The row of the chosen head begins with its layer. A note may also end with "chosen".
    (chosen,) = [line.split() for line in table if re.match(r" *\d.* chosen$", line)]
    assert chosen[-4:-1] == ["0.000", "1.000", "1.000"] and len(table) == 2 + 2 * 2 * 5 + 4
    assert [line.split()[1:3].count("average") for line in table].count(1) == 4
    other = "2" if chosen[1] == "1" else "1"
    assert run([*arguments, "--head", f"{chosen[0]}.{other}"]) == 0
    assert f"head {other} (AER 0." in capsys.readouterr().err
    gold.write_text(re.sub(r"\d+", lambda found: str(int(found[0]) + 1), out))
    assert run([*arguments, "--gold-from", "1", "--report"]) == 0
    assert capsys.readouterr().out.splitlines() == table
    gold.write_text(out.replace("-", "p"))
    assert run([*arguments, "--report"]) == 0
    table = capsys.readouterr().out.splitlines()
    (chosen,) = [line.split() for line in table if re.match(r" *\d.* chosen$", line)]
    assert chosen[-4:-1] == ["0.000", "1.000", "-"], "recall is of sure links, and there are none"


@pytest.mark.integration
def test_reverse_combines_the_links_of_two_models(checkpoint, save, data, tmp_path, capsys):
    turned = ["--source-lang", "tgt", "--target-lang", "src"]
    reverse = save("reverse", "transformer_disagree", *turned)
    one = ["align", str(checkpoint), str(data), "--cpu", "--head", "1.2"]
    other = ["align", str(reverse), str(data), "--cpu", "--head", "2.3.next"]
    both = [*one, "--reverse", str(reverse), "--reverse-head", "2.3.next"]
    assert run(one) == 0 and run(other) == 0
    lines = capsys.readouterr().out.splitlines()
    links = [{tuple(map(int, link.split("-"))) for link in line.split()} for line in lines]
    backward = [{(s, t) for t, s in found} for found in links[40:]]
    for method in SYMMETRISATIONS:
        assert run([*both, "--symmetrise", method]) == 0
        out, printed = capsys.readouterr()
        for text, a, b in zip(out.splitlines(), links[:40], backward, strict=True):
            found = {tuple(map(int, link.split("-"))) for link in text.split()}
            assert found == symmetrise(a, b, method)
    assert "layer 1, head 2 (cons" in printed and "layer 2, head 3, next step (cons" in printed
    assert run([*both, "--report", "--symmetrise", "union"]) == 0
    out = capsys.readouterr().out
    assert "src-tgt" in out and "tgt-src" in out
    assert [line.split()[0] for line in out.splitlines()[-5:]] == list(SYMMETRISATIONS)
    assert re.search(r"^union .* chosen$", out, re.M)
    twice = [*one, "--reverse", str(checkpoint)]
    with pytest.raises(UserError, match="translates src-tgt; give a model of tgt-src"):
        run(twice)


@pytest.mark.integration
def test_sentences_too_long_for_a_model_have_no_alignment(save, data, capsys):
    """In fairseq, sentences longer than the model reads raised an index error (#1881)."""
    short = save("short", "transformer_disagree", "--max-source-positions", "9")
    assert run(["align", str(short), str(data), "--cpu"]) == 0
    out, printed = capsys.readouterr()
    counts = [len(line.split()) for line in out.split("\n")[:-1]]
    assert len(counts) == 40 and set(counts) == {0, 6, 7, 8}
    assert f"note: {counts.count(0)} of 40 sentences are too long for {short}" in printed
