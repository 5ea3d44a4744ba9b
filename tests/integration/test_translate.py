"""Plain text through ``diverse-mha translate`` and ``scripts/evaluate.sh --source``."""

import json
import math
import re

import ctranslate2
import pytest
import torch

from tests.corpora import scripts
from tests.integration.conftest import PLUGIN, run, train

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The demo corpus, small, and a model of a few updates."""
    folder = tmp_path_factory.mktemp("demo")
    scripts.run("demo", "--out", folder, "--pairs", 300, "--merges", 60, cwd=folder)
    train(folder / "bin", folder / "run", "--max-update", 4, "--no-epoch-checkpoints")
    return folder


def files(folder):
    raw = [next((folder / "raw").glob("test.*")), *(folder / "raw").glob("test.*")][1:]
    note = json.loads((folder / "bin/corpus.json").read_text())
    return [next(p for p in raw if p.suffix == f".{note[side]}") for side in ("source", "target")]


def translate(folder, text: str, *options, **kwargs):
    command = ["diverse_mha.cli", "translate", folder / "run/checkpoint_last.pt", folder / "bin"]
    return run(*command, "--cpu", "--max-len-b", 20, *options, input=text, **kwargs)


def test_a_test_set_scores_as_plain_text_what_it_scores_as_data(prepared):
    source, reference = files(prepared)
    command = [
        "diverse_mha.evaluation.translation",
        prepared / "run/checkpoint_last.pt",
        prepared / "bin",
    ]
    options = ["--cpu", "--max-len-b", 20, "--beam", 3]
    plain = ["--source", source, "--reference", reference]
    run(*command, *options, "--output", prepared / "data.json")
    run(*command, *options, *plain, "--output", prepared / "text.json")
    scores = [json.loads((prepared / f"{x}.json").read_text()) for x in ("data", "text")]
    for key in ("tokenised_bleu", "sacrebleu", "sentences", "post_process", "target_lang"):
        assert scores[0][key] == scores[1][key]
    texts = [(prepared / f"{x}.hyp.detok").read_text() for x in ("data", "text")]
    assert texts[0] == texts[1]
    # The same again on standard input, in portions, with empty lines between.
    lines = source.read_text().splitlines()
    done = translate(prepared, "\n\n".join(lines), "--beam", 3, "--buffer", 7)
    assert done.stdout.splitlines()[::2] == texts[0].splitlines()
    assert set(done.stdout.splitlines()[1::2]) == {""}
    assert done.stderr.startswith(f"{2 * len(lines) - 1:,} lines in ")
    assert done.stderr.count("\n") == 1


def test_raw_text_goes_in_and_comes_out(tmp_path):
    """Without a tokeniser, decomposed, with quotation marks; then another corpus like it."""
    words = ["Zu\u0308rich", "„Ja“,", "今日は。", "co-op", "a'b"]
    for split, count in {"train": 60, "valid": 4, "test": 4}.items():
        for language in ("de", "en"):
            lines = (" ".join((words * 2)[n % 5 : n % 5 + 3]) + "\n" for n in range(count))
            (tmp_path / f"{split}.{language}").write_text("".join(lines))
    own = ["own", "--from", ".", "--source", "de", "--target", "en"]
    first = ["--out", "first", "--tokeniser", "none", "--merges", 40]
    scripts.run(*own, *first, cwd=tmp_path)
    like = ["--subwords-from", tmp_path / "first", "--dictionary-from", tmp_path / "first/bin"]
    scripts.run(*own, "--out", "second", *like, cwd=tmp_path)
    for name in ("dict.de.txt", "dict.en.txt", "test.de-en.de.bin", "train.de-en.en.bin"):
        first, second = ((tmp_path / x / "bin" / name).read_bytes() for x in ("first", "second"))
        assert first == second, name
    data = tmp_path / "second/bin"
    train(data, tmp_path / "run", "--max-update", 4, "--no-epoch-checkpoints")
    command = ["diverse_mha.evaluation.translation", tmp_path / "run/checkpoint_last.pt", data]
    plain = ["--source", tmp_path / "test.de", "--reference", tmp_path / "test.en"]
    for name, more in {"data": [], "text": plain}.items():
        output = ["--output", tmp_path / f"{name}.json"]
        run(*command, "--cpu", "--max-len-b", 20, *more, *output)
    results = [json.loads((tmp_path / f"{x}.json").read_text()) for x in ("data", "text")]
    for key in ("tokenised_bleu", "sacrebleu", "post_process"):
        assert results[0][key] == results[1][key]
    texts = [(tmp_path / f"{x}.hyp.detok").read_text() for x in ("data", "text")]
    assert texts[0] == texts[1] == (tmp_path / "data.hyp.tok").read_text()


LONGEST = 200  # tokens of a translation, of both


def searched(said: str) -> list[tuple[list[str], list[str], float]]:
    """Source, translation and its score, in order, from what fairseq-generate says."""
    lines = {kind: re.findall(rf"^{kind}-(\d+)\t(.*)$", said, re.M) for kind in "SHP"}
    sources, found, scores = (dict(lines[kind]) for kind in "SHP")
    return [
        (
            sources[n].split(),
            found[n].split("\t")[1].split(),
            math.log(2) * sum(map(float, scores[n].split())),  # fairseq prints base 2
        )
        for n in sorted(sources, key=int)
    ]


def same_search(model, source: list[str], ours: list[str], score: float) -> bool:
    """Whether CTranslate2 finds our translation; if not, it is for the one known difference.

    Both models give a translation the same score. CTranslate2 forbids the empty translation before
    the softmax of the first step, fairseq after it: so every score in its search is higher by c,
    and by c / length for the mean that the search goes by. Of two that are nearly as good it
    prefers the shorter one.
    """
    translator = ctranslate2.Translator(str(model))

    def scores(words):  # of every token and of the end
        return translator.score_batch([source], [words])[0].log_probs

    def mean(words, more=0.0):
        counted = scores(words)[:LONGEST]  # where CTranslate2 stops without an end
        return (sum(counted) + more) / len(counted)

    assert sum(scores(ours)) == pytest.approx(score, abs=1e-3)
    (found,) = translator.translate_batch(
        [source], beam_size=5, max_input_length=0, max_decoding_length=LONGEST, return_scores=True
    )
    (theirs,) = found.hypotheses
    c = -math.log1p(-math.exp(sum(scores([]))))
    assert found.scores[0] == pytest.approx(mean(theirs, c), abs=1e-4)
    if theirs != ours:
        assert len(theirs) < len(ours)
        assert mean(ours) > mean(theirs) and mean(theirs, c) > mean(ours, c)
    return theirs == ours


def test_ctranslate2_translates_plain_text_the_same(tmp_path):
    scripts.run("demo", "--out", ".", "--pairs", 300, "--merges", 90, cwd=tmp_path)
    options = ["--max-update", 30, "--no-epoch-checkpoints", "--lr", "5e-3"]
    train(tmp_path / "bin", tmp_path / "run", *options)
    checkpoint, model = tmp_path / "run/checkpoint_last.pt", tmp_path / "model"
    run("diverse_mha.cli", "export", checkpoint, model, "--format", "ctranslate2")
    source, _ = files(tmp_path)
    text = "\n\n".join(source.read_text().splitlines()[:10])
    # The folder's own script, which has neither torch nor fairseq.
    done = run("translate", input=text, cwd=model, fresh=True).stdout.splitlines()
    command = ["diverse_mha.cli", "translate", checkpoint, tmp_path / "bin", "--cpu"]
    expected = run(*command, input=text).stdout.splitlines()
    assert len(done) == 19 and set(done[1::2]) == {""} and all(expected[::2])
    command = ["fairseq_cli.generate", tmp_path / "bin", "--path", checkpoint, "--cpu"]
    said = run(*command, "--user-dir", PLUGIN).stdout
    alike = [same_search(model, *found) for found in searched(said)[:10]]
    for same, theirs, ours in zip(alike, done[::2], expected[::2], strict=True):
        assert theirs == ours or not same
    small = tmp_path / "small"
    convert = ["diverse_mha.cli", "export", checkpoint, small, "--format", "ctranslate2"]
    run(*convert, "--quantization", "int8")
    sizes = [(folder / "model.bin").stat().st_size for folder in (model, small)]
    # A byte in place of four for all that is multiplied, and a scale for each row. Their names are
    # what is left; a matrix with several names is written once.
    state = torch.load(checkpoint, weights_only=True)["model"]
    matrices = {x.data_ptr(): x for x in state.values() if x.dim() == 2}.values()
    saved = sum(3 * x.numel() - 4 * len(x) for x in matrices)
    assert 0.97 * saved < sizes[0] - sizes[1] <= saved
