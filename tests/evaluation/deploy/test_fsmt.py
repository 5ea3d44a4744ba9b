"""Models for transformers: the same numbers, the same subwords, or one line that says why not."""

import json
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.deploy import fsmt
from diverse_mha.evaluation.deploy.stock_form import stock_state
from tests.evaluation.deploy.test_ctranslate import side
from tests.evaluation.deploy.test_stock_form import LM, checkpoint
from tests.toy import SMALL

pytest.importorskip("transformers")


def stock(arch: str = "transformer_disagree", **options):
    state = checkpoint(arch, SMALL | options)
    made = stock_state("x.pt", state, namespace=True)
    made["args"].source_lang, made["args"].target_lang = "de", "en"
    return made


@pytest.mark.parametrize("sharing", [{"share_all_embeddings": True}, {"encoder_layers": 1}])
def test_logits_are_those_of_fairseq(sharing):
    from fairseq.models.transformer import TransformerModel

    made = stock(**sharing)
    words = made["model"]["encoder.embed_tokens.weight"].size(0)
    task = SimpleNamespace(source_dictionary=Dictionary(), target_dictionary=Dictionary())
    for dictionary in (task.source_dictionary, task.target_dictionary):
        for number in range(words - 4):
            dictionary.add_symbol(str(number))
    theirs = TransformerModel.build_model(made["args"], task)
    theirs.load_state_dict(made["model"])
    theirs.eval()
    ours = fsmt.build("x.pt", made["args"], made["model"], (words, words))
    source = torch.tensor([[5, 6, 7, 2], [1, 8, 9, 2]])
    before = torch.tensor([[2, 5, 6], [2, 7, 4]])
    with torch.no_grad():
        expected = theirs(source, None, before)[0]
        mask = (source != 1).long()
        found = ours(source, attention_mask=mask, decoder_input_ids=before, use_cache=False).logits
    assert (found - expected).abs().max() < 1e-5


@pytest.mark.parametrize(
    "arch, options, said",
    [
        ("transformer_disagree", {"encoder_normalize_before": True}, "--encoder-normalize-before"),
        ("transformer_disagree", {"decoder_learned_pos": True}, "--decoder-learned-pos True: FSMT"),
        (
            "transformer_disagree",
            {"activation_fn": "gelu_accurate"},
            "--activation-fn gelu_accurate",
        ),
        ("transformer_lm_disagree_tiny", LM, "a language model; --format transformers"),
    ],
)
def test_what_fsmt_has_not_is_refused(arch, options, said):
    made = stock_state(
        "x.pt", checkpoint(arch, SMALL | options if "lm" not in arch else options), namespace=True
    )
    with pytest.raises(UserError, match=f"^x.pt: {said}"):
        fsmt._check("x.pt", made["args"])


def test_the_tokenizer_has_the_words_of_the_dictionary(tmp_path):
    from transformers import AutoTokenizer

    words = Dictionary()
    for word in ("ein", "H@@", "und", ","):
        words.add_symbol(word)
    codes = tmp_path / "codes.de"
    codes.write_text("#version: 0.2\ne i\nei n</w>\nu n\nun d</w>\n")
    source = side(model=codes)
    fsmt._write_tokenizer(tmp_path, source, ("de", "en"), (words, words))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "fsmt"}))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer("ein Hund, ein")["input_ids"]
    assert words.string(torch.tensor(ids)) == "ein H@@ und , ein"
    assert tokenizer.decode(ids, skip_special_tokens=True) == "ein Hund, ein"
