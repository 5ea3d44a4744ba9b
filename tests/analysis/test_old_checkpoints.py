"""Checkpoints of earlier versions compute what they did."""

import pytest
import torch
from fairseq import checkpoint_utils

pytestmark = pytest.mark.integration

SOURCE = torch.tensor([[4, 5, 6, 7, 2]])


def scores(path) -> torch.Tensor:
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    with torch.no_grad():
        return model.eval()(SOURCE)[0]


@pytest.mark.parametrize("extra", [[], ["--no-decoder-final-norm"]], ids=["norm", "no norm"])
def test_language_models_that_were_always_pre_norm(save, extra):
    """The configuration said post-norm and left the widths of the embedding open."""
    path = save("old", "transformer_lm_coda_tiny", *extra, task="language_modeling")
    expected = scores(path)
    state = torch.load(path, weights_only=False)
    assert state["cfg"]["model"]["decoder_normalize_before"] is True
    widths = {"decoder_input_dim": None, "decoder_output_dim": None}
    state["cfg"]["model"].update(decoder_normalize_before=False, **widths)
    torch.save(state, path)
    torch.testing.assert_close(scores(path), expected, rtol=0, atol=0)


def test_a_post_norm_language_model_stays_one(save):
    path = save("post", "transformer_lm_disagree", task="language_modeling")
    assert "decoder.layer_norm.weight" not in torch.load(path, weights_only=False)["model"]
    assert not checkpoint_utils.load_checkpoint_to_cpu(path)["cfg"].model.decoder_normalize_before
    assert scores(path).isfinite().all()


def test_the_tiny_translation_model_keeps_its_shape(save):
    """``_tiny`` was 128 wide with 4 heads; checkpoints hold their shape beside the name."""
    path = save("old", "transformer_disagree_small")
    state = torch.load(path, weights_only=False)
    state["cfg"]["model"]["_name"] = "transformer_disagree_tiny"
    torch.save(state, path)
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    assert model.decoder.layers[0].self_attn.num_heads == 4
