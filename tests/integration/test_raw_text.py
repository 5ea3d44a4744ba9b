"""Commands after training accept raw text, on a corpus prepared with ``prepare-own``."""

import json
import unicodedata

import pytest
import torch

from diverse_mha.corpora.text import write_lines
from tests.corpora import scripts
from tests.corpora.writing import SENTENCES
from tests.integration.conftest import run, train

pytestmark = pytest.mark.integration

LINES = [line for lines in SENTENCES.values() for line in lines]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Folder of a corpus in many writing systems, and of a model trained for four updates."""
    folder = tmp_path_factory.mktemp("raw")
    (folder / "text").mkdir()
    for split in ("train", "valid", "test"):
        for language in ("xx", "en"):
            write_lines(folder / f"text/{split}.{language}", LINES)
    arguments = ["--from", "text", "--source", "xx", "--target", "en", "--out", "mine"]
    scripts.run("own", *arguments, cwd=folder)
    shape = ["--max-update", 4, "--no-epoch-checkpoints", "--share-all-embeddings"]
    train(folder / "mine/bin", folder / "run", *shape)
    return folder


@pytest.mark.long
def test_evaluate_translate_and_align_accept_raw_text(prepared):
    checkpoint, data = prepared / "run/checkpoint_last.pt", prepared / "mine/bin"
    given = ["--cpu", "--beam", 2, "--max-len-b", 9]
    printed = run("diverse_mha.evaluation.evaluate", checkpoint, data, *given).stdout
    assert "sacreBLEU" in printed and "tokenised BLEU" not in printed
    detok = prepared / "run/checkpoint_last.test.hyp.detok"
    expected = detok.read_text(encoding="utf-8").split("\n")[:-1]
    scores = json.loads(detok.with_name("checkpoint_last.test.json").read_text())
    assert "tokenised_bleu" not in scores
    command = ["diverse_mha.cli", "translate", checkpoint, data, *given]
    decomposed = "\n".join(unicodedata.normalize("NFD", line) for line in LINES)
    done = run(*command, "--alignments", "1.1", input=decomposed).stdout.split("\n")[:-1]
    columns = [line.split("\t") for line in done]
    assert [text for text, *_ in columns] == expected
    for line, (_, words, target, links) in zip(LINES, columns, strict=True):
        assert words == unicodedata.normalize("NFC", line)
        assert {link.split("-")[1] for link in links.split()} == {
            str(n) for n in range(len(target.split()))
        }
    done = run("diverse_mha.cli", "align", checkpoint, data, "--cpu", "--subset", "test")
    for line, links in zip(LINES, done.stdout.splitlines(), strict=True):
        assert len(links.split()) == len(line.split()), "each word of the raw text has a link"
    assert "note:" not in done.stderr


def test_exported_ctranslate2_models_accept_raw_text(prepared, tmp_path):
    pytest.importorskip("ctranslate2")
    checkpoint, model = prepared / "run/checkpoint_last.pt", tmp_path / "model"
    run("diverse_mha.cli", "export", checkpoint, model, "--format", "ctranslate2")
    text = "\n".join(LINES)
    done = run("translate", input=text, cwd=model, fresh=True).stdout.split("\n")[:-1]
    assert len(done) == len(LINES) and (model / "sentencepiece.model").is_file()


def test_exported_transformers_models_accept_raw_text(prepared, tmp_path):
    pytest.importorskip("transformers")
    checkpoint, hub = prepared / "run/checkpoint_last.pt", tmp_path / "hub"
    data = ["--data", prepared / "mine/bin"]
    printed = run("diverse_mha.cli", "export", checkpoint, hub, "--format", "transformers", *data)
    assert printed.stdout.endswith("for transformers, with its tokenizer\n")
    (tmp_path / "score.py").write_text(SCORE)
    found = torch.tensor(json.loads(run("score", hub, *LINES, cwd=tmp_path).stdout))
    from fairseq.checkpoint_utils import load_model_ensemble_and_task

    import diverse_mha

    diverse_mha.register()
    (ours,), _, task = load_model_ensemble_and_task([str(checkpoint)])
    pieces = (prepared / "mine/bpe/test.xx").read_text(encoding="utf-8").splitlines()
    for line, scores in zip(pieces, found, strict=True):
        tokens = task.source_dictionary.encode_line(line, add_if_not_exist=False).long()[None]
        with torch.no_grad():
            logits = ours.eval()(tokens, torch.tensor([tokens.size(1)]), tokens.roll(1))[0]
        assert (logits[0, -1] - scores).abs().max() < 1e-5


SCORE = """
import json, sys, torch
from transformers import AutoTokenizer, FSMTForConditionalGeneration as Model
tokenizer, model = AutoTokenizer.from_pretrained(sys.argv[1]), Model.from_pretrained(sys.argv[1])
found = []
with torch.no_grad():
    for line in sys.argv[2:]:
        ids = tokenizer(line, return_tensors="pt")["input_ids"]
        out = model(ids, decoder_input_ids=ids.roll(1), use_cache=False).logits
        found.append(out[0, -1].tolist())
print(json.dumps(found))
"""
