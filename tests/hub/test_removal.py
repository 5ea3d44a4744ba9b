"""``prune --remove`` with folders of transformers: smaller models that transformers loads alone."""

import json

import pytest
import torch
import transformers

from diverse_mha.analysis.importance import measure_importance
from diverse_mha.analysis.results import ABLATION
from diverse_mha.analysis.sites import Selection
from diverse_mha.cli import run
from diverse_mha.common.errors import UserError
from diverse_mha.hub.adapter import open_folders
from diverse_mha.hub.texts import Text
from tests.hub import folders

# Model -> options of its config: biases, normalised queries, soft caps and windows.
MODELS = {
    "Llama": {"attention_bias": True},
    "Mistral": {"head_dim": 4, "sliding_window": 5},
    "Qwen2": {},
    "Qwen3": {"head_dim": 6},
    "Gemma2": {"head_dim": 6, "query_pre_attn_scalar": 6, "tie_word_embeddings": True},
}


def save(name, folder, **options):
    """Write a folder with a model of two layers, of four groups of two heads each."""
    torch.manual_seed(1)
    config = getattr(transformers, f"{name}Config")(
        vocab_size=len(folders.WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=4, intermediate_size=16, max_position_embeddings=64, pad_token_id=0,
        bos_token_id=1, eos_token_id=1, **MODELS.get(name, {}) | options,
    )  # fmt: skip
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    model.save_pretrained(folder)
    folders.tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return folders.texts(tmp_path_factory.mktemp("text"))[0]


def prune(folder, text, output, *words):
    words = ("prune", folder, "--text", text, "--block", 16, *words, "--output", output, "--cpu")
    assert run([*map(str, words)]) == 0
    return json.loads((output / "pruned_heads.json").read_text())


def logits(folder, gone=()):
    """Return the logits in float64 of transformers alone, with some heads' columns set to zero."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).double().eval()
    for layer, head in gone:
        weight = model.get_submodule(f"model.layers.{layer - 1}.self_attn.o_proj").weight
        with torch.no_grad():
            weight.unflatten(1, (8, -1))[:, head - 1] = 0
    ids = torch.randint(2, len(folders.WORDS), (3, 9), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        return model(ids).logits, sum(x.numel() for x in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_a_smaller_model_has_the_logits_of_the_zeroed_one(name, text, tmp_path):
    whole, small = save(name, tmp_path / "whole"), tmp_path / "small"
    record = prune(whole, text, small, "--remove", "--heads", 8, "--by", "random", "--seed", 3)
    heads = [x.removeprefix("decoder ").split(".") for x in record["pruned_heads"]]
    gone = [(int(layer), int(head)) for layer, head in heads]
    assert sorted(layer for layer, _ in gone) == [1] * 4 + [2] * 4
    assert {(n, h + h % 2) for n, h in gone} == {(n, h) for n, h in gone if h % 2 == 0}
    (expected, before), (found, after) = logits(whole, gone), logits(small)
    # Their layers normalise in float32.
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found, logits(whole)[0], rtol=1e-2)
    size = MODELS[name].get("head_dim", 2)
    rows = 2 * (4 + 2 + 2 + 4) * size  # of queries, keys, values and outputs, in two layers
    biases = (4 + 2 + 2) * 2 * size if name in ("Llama", "Qwen2") else 0
    assert before - after == 16 * rows + biases


def test_every_layer_loses_its_weakest_groups(text, tmp_path):
    whole = save("Qwen2", tmp_path / "whole")
    record = prune(whole, text, tmp_path / "small", "--remove", "--share", 0.25)
    (adapter,) = open_folders([whole], {str(text): Text(text)}, cpu=True, block=16)
    _, modules = measure_importance(adapter, Selection(measures=(ABLATION,), subset=str(text)))
    expected = set()
    for layer, measures in modules["decoder"].items():
        rises = measures[ABLATION].heads
        sums = [rises[n] + rises[n + 1] for n in range(0, 8, 2)]
        first = 2 * sums.index(min(sums)) + 1
        expected |= {f"decoder {layer}.{first}", f"decoder {layer}.{first + 1}"}
    assert {*record["pruned_heads"]} == expected


def test_heads_keep_their_numbers_when_a_smaller_model_is_pruned_again(text, tmp_path):
    whole, small, zeroed = (tmp_path / name for name in ("whole", "small", "zeroed"))
    first = prune(save("Mistral", whole), text, small, "--remove", "--share", 0.5)
    (adapter,) = open_folders([small], {}, cpu=True)
    kept = {f"decoder {site.number}.{n}" for site in adapter.sites for n in site.numbers.kept}
    assert kept.isdisjoint(first["pruned_heads"]) and len(kept) == 8
    second = prune(small, text, zeroed, "--heads", 3)
    assert {*second["pruned_heads"][8:]} <= kept and second["kept_heads"] == first["kept_heads"]
    third = prune(zeroed, text, tmp_path / "smallest", "--remove", "--share", 0.5)
    gone = [(int(x[8]), int(x[10])) for x in third["pruned_heads"]]
    assert len({*gone}) == len(gone) and sum(map(len, third["kept_heads"].values())) == 4
    found, _ = logits(tmp_path / "smallest")
    torch.testing.assert_close(found, logits(whole, gone)[0], rtol=1e-5, atol=1e-5)


def test_what_a_config_cannot_express_is_refused_before_heads_are_ranked(text, tmp_path):
    folder = save("Qwen3", tmp_path / "qwen3")
    with pytest.raises(UserError, match=r"can lose 4, 8, 12 heads, not 5; .* --heads 4"):
        prune(folder, text, tmp_path / "x", "--remove", "--heads", 5)
    # OLMo 2 normalises the queries of all heads together, so that each depends on the others.
    folder = save("Olmo2", tmp_path / "olmo2")
    with pytest.raises(UserError, match="--remove: needs a model .* Olmo2ForCausalLM is none"):
        prune(folder, text, tmp_path / "x", "--remove", "--heads", 4)
    assert not (tmp_path / "x").exists()
    llama = save("Llama", tmp_path / "llama")
    try:  # some versions want a hidden size that is a multiple of the number of heads
        prune(llama, text, tmp_path / "y", "--remove", "--heads", 4, "--by", "random")
    except UserError as error:
        assert "can lose 8, 12 heads" in str(error)
    else:
        assert logits(tmp_path / "y")
