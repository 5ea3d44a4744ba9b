"""The token loss of every sentence of a batch."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diverse_mha.criterions.fused_loss import fused_label_smoothed_loss

ROWS = 1024  # words whose logits are there at once


def sentence_losses(model: nn.Module, sample: dict, found: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss of every sentence and its number of tokens.

    Args:
        model: a translation model, a language model, or a classifier.
        sample: fairseq's batch.
        found: what ``ablation.run_model`` returned for it.

    Returns:
        Negative log-likelihood in nats, summed over the tokens of a sentence, and their number:
        (B,) float64. An example of a classifier counts as one token.
    """
    target = sample["target"]
    if not hasattr(model, "decoder"):
        losses = F.cross_entropy(found, target.view(-1), reduction="none").double()
        return losses, torch.ones_like(losses)
    real = target.ne(model.decoder.padding_idx)  # (B, T)
    losses = _token_losses(model, found[real], target[real])
    counts = real.sum(dim=1)
    rows = torch.arange(len(target), device=target.device).repeat_interleave(counts)
    sums = losses.new_zeros(len(target), dtype=torch.float64)
    return sums.index_add_(0, rows, losses.double()), counts.double()


def total_loss(model: nn.Module, sample: dict, found: Tensor) -> Tensor:
    """Return the sum of the losses for a backward pass, without the logits of a whole batch."""
    plain = hasattr(model, "decoder") and model.decoder.adaptive_softmax is None
    weight = model.output_weight() if plain else None
    if weight is None:
        return sentence_losses(model, sample, found)[0].sum()
    padding, target = model.decoder.padding_idx, sample["target"]
    return fused_label_smoothed_loss(found, weight.detach(), target, 0.0, padding)[0]


def _token_losses(model: nn.Module, features: Tensor, words: Tensor) -> Tensor:
    """Return the losses (N,) of words from features (N, C)."""
    softmax = model.decoder.adaptive_softmax
    if softmax is not None:
        return _adaptive_losses(softmax, features, words)
    blocks = zip(features.split(ROWS), words.split(ROWS), strict=True)
    output = model.decoder.output_layer
    return torch.cat([F.cross_entropy(output(x), y, reduction="none") for x, y in blocks])


def _adaptive_losses(softmax: nn.Module, features: Tensor, words: Tensor) -> Tensor:
    (first, *bands), (of_first, *of_bands) = softmax(features, words)
    losses = F.cross_entropy(first, of_first, reduction="none")
    _, places = softmax.adapt_target(words)
    for rows, logits, of in zip(places, bands, of_bands, strict=True):
        if rows is not None:
            losses = losses.index_add(0, rows, F.cross_entropy(logits, of, reduction="none"))
    return losses
