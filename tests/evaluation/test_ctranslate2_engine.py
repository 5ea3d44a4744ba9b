"""Search by CTranslate2 instead of fairseq. Commands with CTranslate2: tests/integration/."""

import json
import subprocess
import sys

import pytest
import torch
from fairseq import models

from diverse_mha.common.errors import UserError
from diverse_mha.common.progress import Progress
from diverse_mha.evaluation import ctranslate2_engine
from diverse_mha.evaluation.ctranslate2_engine import Search, open_engine
from diverse_mha.evaluation.engine import Lines
from tests.models.test_stock_form import checkpoint
from tests.toy import SMALL, toy_task

ctranslate2 = pytest.importorskip("ctranslate2")

SEARCH = Search(beam=3, lenpen=1.0, longest=9, max_tokens=100)


def saved(options: dict) -> dict:
    """Return a checkpoint with the keys that a training saves."""
    state = checkpoint("transformer_disagree", options)
    state["cfg"].common.user_dir, state["cfg"].task._name = None, "exact_translation"
    history = {"criterion_name": "", "optimizer_name": "", "num_updates": 1}
    history |= {"lr_scheduler_state": {}}
    return state | {"args": None, "optimizer_history": [history], "extra_state": {}}


@pytest.fixture
def model(tmp_path):
    """Return a random model, whose checkpoint and dictionaries are written to ``tmp_path``."""
    torch.manual_seed(2)
    state = saved(SMALL)
    state["model"]["decoder.output_projection.weight"][2] *= 4  # makes </s> more likely
    state["cfg"].task.source_lang, state["cfg"].task.target_lang = "a", "b"
    torch.save(state, tmp_path / "model.pt")
    for side in "ab":
        toy_task().source_dictionary.save(str(tmp_path / f"dict.{side}.txt"))
    own = models.build_model(state["cfg"].model, toy_task()).eval()
    own.load_state_dict(state["model"])
    return own


def opened(folder, engine="ctranslate2", name="model.pt", search=SEARCH, **more):
    return open_engine(engine, str(folder / name), folder, cpu=True, search=search, **more)


@pytest.mark.parametrize("lenpen", [0.0, 0.6, 1.0])
def test_scores_of_ctranslate2_equal_those_of_our_model(model, tmp_path, lenpen):
    dictionary = toy_task().source_dictionary
    eos, words = dictionary.eos(), dictionary.symbols[4:]
    sources = [[words[(n * k) % len(words)] for k in range(1, n % 7 + 2)] for n in range(30)]
    search = Search(beam=3, lenpen=lenpen, longest=9, max_tokens=100)
    lengths = set()
    engine = opened(tmp_path, search=search)
    found = engine.translate(Lines(sources))
    for source, (best, score, _) in zip(sources, found, strict=True):
        # At the maximum length CTranslate2 adds no end of sentence; fairseq does.
        ended = [*map(dictionary.index, best), *([eos] if len(best) < 9 else [])]
        lengths.add(len(best))
        tokens = torch.tensor([[*map(dictionary.index, source), eos]])
        with torch.no_grad():
            before = torch.tensor([[eos, *ended[:-1]]])
            output = model(tokens, torch.tensor([tokens.size(1)]), before)
        log_probs = model.get_normalized_probs(output, log_probs=True)[0].double()
        expected = sum(float(log_probs[at, token]) for at, token in enumerate(ended))
        # CTranslate2 forbids the empty translation before the softmax, fairseq after it.
        expected -= float(torch.log1p(-log_probs[0, eos].exp()))
        assert score == pytest.approx(expected / len(ended) ** lenpen, abs=1e-4)
    assert 9 in lengths and len(lengths) > 1


def test_a_progress_bar_counts_portions_of_the_sentences(model, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ctranslate2_engine, "PORTION", 2)
    monkeypatch.setattr("diverse_mha.common.progress.EVERY", 0.0)
    engine, text = opened(tmp_path), Lines([["a"], ["b", "a"], ["a"], ["b"], ["a", "a"]])
    capsys.readouterr()
    with Progress("translating", "sentences", 5) as progress:
        found = [*engine.translate(text, progress)]
    done = [line.split()[1] for line in capsys.readouterr().err.splitlines()]
    assert done == ["2", "4"] and found == [*engine.translate(text)]


def test_a_sentence_that_the_model_cannot_read_is_refused(model, tmp_path):
    engine = opened(tmp_path)
    fits, longer = (Lines([["a"] * (engine.longest - n)]) for n in (1, 0))
    assert len([*engine.translate(fits)]) == 1
    with pytest.raises(UserError, match="has a sentence of .* the model reads at most"):
        next(engine.translate(longer))


def test_a_model_is_converted_again_only_after_a_change(model, tmp_path, capsys):
    folder = tmp_path / "model.ctranslate2"
    times = []
    for _ in range(2):
        assert opened(tmp_path, "auto") is not None
        times.append((folder / "engine.json").stat().st_mtime_ns)
        assert f"searching by CTranslate2, model {folder}" in capsys.readouterr().err
    assert times[0] == times[1]
    state = torch.load(tmp_path / "model.pt", weights_only=False)
    state["model"]["decoder.layers.0.fc1.bias"] += 1
    torch.save(state, tmp_path / "model.pt")
    opened(tmp_path, "auto")
    assert (folder / "engine.json").stat().st_mtime_ns > times[0]
    assert {path.name for path in tmp_path.iterdir()} == {
        *("model.pt", "model.ctranslate2", "dict.a.txt", "dict.b.txt")
    }


def test_a_converted_model_is_opened_without_torch_and_fairseq(model, tmp_path):
    opened(tmp_path)
    program = f"""
import sys
from diverse_mha.evaluation.ctranslate2_engine import Search, open_engine
from diverse_mha.evaluation.engine import Lines
engine = open_engine("auto", {str(tmp_path / "model.pt")!r}, {str(tmp_path)!r}, cpu=False,
                     search=Search(3, 1.0, 9, 100))
assert len([*engine.translate(Lines([["a"]]))]) == 1
print(*engine.languages, *({{"torch", "fairseq"}} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == ("a b\n" if not torch.cuda.is_available() else "a b torch\n"), done.stderr


def test_engine_json_without_languages_is_written_again(model, tmp_path):
    opened(tmp_path)
    file = tmp_path / "model.ctranslate2" / "engine.json"
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({"of": whole["of"], "positions": whole["positions"]}))
    assert opened(tmp_path).languages == ("a", "b") and json.loads(file.read_text()) == whole


def test_a_language_model_is_refused_in_one_line(model, tmp_path, capsys):
    state = torch.load(tmp_path / "model.pt", weights_only=False)
    state["model"] = {name: x for name, x in state["model"].items() if "encoder." not in name}
    torch.save(state, tmp_path / "lm.pt")
    with pytest.raises(UserError, match="lm.pt: is not a translation model"):
        opened(tmp_path, "auto", name="lm.pt")
    assert not capsys.readouterr().err


def test_fairseq_searches_if_ctranslate2_does_not_support_the_model_or_options(
    model, tmp_path, capsys
):
    state = saved(SMALL | {"logits": "residual"})
    torch.save(state, tmp_path / "sum.pt")
    (tmp_path / "taken.ctranslate2").mkdir()
    torch.save(state, tmp_path / "taken.pt")
    negative = Search(beam=3, lenpen=-1.0, longest=9, max_tokens=100)
    for more, why in (
        ({"name": "sum.pt"}, "--logits residual exists in this package alone"),
        ({"name": "taken.pt"}, "taken.ctranslate2 exists and is not a converted model; move it"),
        ({"name": "model.pt:model.pt"}, "CTranslate2 does not support ensembles"),
        ({"search": negative}, "CTranslate2 does not support --lenpen -1"),
        ({"refused": "no support for --nbest"}, "no support for --nbest"),
    ):
        assert opened(tmp_path, "auto", **more) is None
        message = capsys.readouterr().err
        assert (
            message.startswith("searching by fairseq: ")
            and why in message
            and message.count("\n") == 1
        )
        with pytest.raises(UserError, match="^--engine ctranslate2: .*; leave out --engine$"):
            opened(tmp_path, **more)
    assert not [*(tmp_path / "taken.ctranslate2").iterdir()]
    assert opened(tmp_path, "fairseq") is None and not capsys.readouterr().err
