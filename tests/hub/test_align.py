"""``align`` with folders of transformers: words of the text, heads of the attention."""

from unittest.mock import Mock

import pytest

import diverse_mha
from diverse_mha.cli import run
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.hub_aligner import places_of
from diverse_mha.hub.adapter import open_folders
from tests.hub import folders


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return [folders.save("marian", root / f"marian-{seed}", seed) for seed in (1, 2)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return folders.texts(tmp_path_factory.mktemp("text"), 8)


def align(model, files, *words):
    source, target = files
    words = (model, "--text", source, "--target", target, *words, "--cpu")
    assert run(["align", *map(str, words)]) == 0


def literal(model, files, layer, head, shift=0):
    """Return links of each line: the word with the largest sum of weights, from the tensors."""
    loaded, lines = diverse_mha.load(model, cpu=True), []
    texts = [file.read_text().splitlines() for file in files]
    for source, target in zip(*texts, strict=True):
        weights = loaded.run([source], [target], states=("weights",)).heads["cross"].weights
        weights, links = weights[layer - 1][0, head - 1], []
        places = [
            [n for n, word in enumerate(text.split()) for _ in word.split("@")]
            for text in (source, target)
        ]
        for word in range(len(target.split())):
            rows = [t + shift for t, place in enumerate(places[1]) if place == word]
            sums = [
                sum(float(weights[t, s]) for t in rows for s, p in enumerate(places[0]) if p == at)
                for at in range(len(source.split()))
            ]
            links.append((sums.index(max(sums)), word))
        lines.append(" ".join(f"{s}-{t}" for s, t in sorted(links)))
    return lines


@pytest.mark.integration
@pytest.mark.parametrize("name, layer, head, shift", [("2.3", 2, 3, 0), ("1.2.next", 1, 2, 1)])
def test_links_are_between_words_of_the_text(models, files, capsys, name, layer, head, shift):
    align(models[0], files, "--head", name)
    found = capsys.readouterr().out.splitlines()
    assert found == literal(models[0], files, layer, head, shift)


@pytest.mark.integration
def test_gold_and_the_reverse_model_are_used_as_with_fairseq(models, files, tmp_path, capsys):
    gold = tmp_path / "gold"
    gold.write_text("\n".join(literal(models[0], files, 1, 4)) + "\n")
    align(models[0], files, "--gold", gold)
    printed = capsys.readouterr()
    assert "aligned by layer 1, head 4 (AER 0.000)" in printed.err
    align(models[0], files, "--head", "1.4", "--reverse", models[1], "--reverse-head", "2.1",
          "--symmetrise", "union")  # fmt: skip
    found = [{*line.split()} for line in capsys.readouterr().out.splitlines()]
    forward = literal(models[0], files, 1, 4)
    backward = literal(models[1], files[::-1], 2, 1)
    turned = [{"-".join(x.split("-")[::-1]) for x in line.split()} for line in backward]
    assert found == [{*one.split()} | two for one, two in zip(forward, turned, strict=True)]
    align(models[0], files, "--report")
    assert "consistency" in capsys.readouterr().out


@pytest.mark.integration
def test_models_without_a_source_are_refused(files, tmp_path):
    gpt2 = folders.save("gpt2", tmp_path / "gpt2")
    with pytest.raises(UserError, match="GPT2LMHeadModel takes none|has no attention to a source"):
        align(gpt2, files)
    with pytest.raises(UserError, match="--subset test has no effect with --text"):
        align(gpt2, files, "--subset", "test")


def test_places_without_offsets_follow_the_marks_of_sentencepiece():
    tokens = ["▁Das", "▁Ha", "us", "▁.", "</s>"]
    tokenizer = Mock(is_fast=False, all_special_ids=[9], unk_token_id=8)
    tokenizer.convert_ids_to_tokens = lambda ids: [{9: "</s>"}.get(n, tokens[n % 9]) for n in ids]
    tokenizer.return_value = {"input_ids": [9]}
    assert places_of(tokenizer, "Das Haus .", [0, 1, 2, 3, 9], target=0) == ([0, 1, 1, 2, -1], True)
    places, sure = places_of(tokenizer, "Das  Haus. Ja", [0, 1, 2, 9], target=0)
    assert places == [0, 1, 1, -1] and not sure


def test_language_codes_belong_to_no_word(tmp_path):
    folder = folders.save_m2m100(tmp_path / "m2m", src_lang="de", tgt_lang="en")
    (adapter,) = open_folders([folder], {}, cpu=True)
    for target, line in enumerate(("ein Haus am See .", "a house at the lake .")):
        (ids,) = adapter.reader.ids([line], text_target=bool(target))
        places, sure = places_of(adapter.tokenizer, line, ids.tolist(), target=target)
        assert sure and places[0] == places[-1] == -1
        assert list(dict.fromkeys(places[1:-1])) == [*range(len(line.split()))]
