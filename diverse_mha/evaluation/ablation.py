"""Head ablation with an activation cache, and the token loss of each sentence.

Replaces the output of one head (by zeros or its mean), and reuses the activations below it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MethodType
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from fairseq.modules.adaptive_softmax import AdaptiveSoftmax
from torch import Tensor, nn

from diverse_mha.attention.sites import HeadNumbers
from diverse_mha.criterions.fused_loss import fused_label_smoothed_loss
from diverse_mha.evaluation.models import Sample
from diverse_mha.models.attention import DiverseAttention
from diverse_mha.models.base import OutputWeight
from diverse_mha.models.parts import ATTENTIONS, SIDES


class Site(NamedTuple):
    """An attention module of a model."""

    component: str
    number: int  # layer, from 1
    layer: nn.Module
    attention: DiverseAttention

    @property
    def numbers(self) -> HeadNumbers:
        """Numbers of the module's heads that are not pruned, and the total with pruned heads."""
        return HeadNumbers(self.attention.kept_heads, self.attention.all_heads)


def sites_of(model: nn.Module) -> list[Site]:
    """Return all attention modules, in the order of components and layers."""
    sites = []
    for component, side in SIDES.items():
        layers = getattr(getattr(model, side, None), "layers", ())
        for number, layer in enumerate(layers, 1):
            attention = getattr(layer, ATTENTIONS[component], None)
            if attention is not None:
                sites.append(Site(component, number, layer, attention))
    return sites


def run_model(model: nn.Module, sample: Sample) -> Tensor:
    """Run a batch; return the decoder's features (B, T, C) or class scores (B, classes)."""
    if not hasattr(model, "decoder"):
        # A classifier encodes all rows of a batch in one pass if head states are requested.
        return model(**sample["net_input"], return_head_states=("outputs",))[0]
    # No layer has the number -1, so the decoder computes no alignment.
    return model(**sample["net_input"], features_only=True, alignment_layer=-1)[0]


@contextmanager
def gated(site: Site, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Context manager: apply ``change`` to a module's head outputs, before the aggregation.

    Head outputs are (B, T, H, D).
    """

    def hook(_, args: tuple) -> tuple:
        return _change(site, change, args)

    handle = site.attention.out_proj.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


class ActivationCache:
    """Activation cache of one batch: a head is ablated without recomputing the layers below.

    Attributes:
        output: result of :func:`run_model` without ablation.
    """

    def __init__(self, model: nn.Module, sample: Sample):
        self._model, self._sample = model, sample
        self._sites = sites_of(model)
        self._results: dict[nn.Module, Any] = {}
        self._out_proj_inputs: dict[nn.Module, tuple] = {}
        modules: list[nn.Module] = []
        for site in self._sites:
            modules += [site.layer, site.attention]
        modules += [model.get_submodule("encoder")] if hasattr(model, "encoder") else []
        handles = [
            module.register_forward_hook(self._save_result) for module in dict.fromkeys(modules)
        ]
        handles += [
            site.attention.out_proj.register_forward_pre_hook(self._save_out_proj_input)
            for site in self._sites
        ]
        try:
            self.output = run_model(model, sample)
        finally:
            for handle in handles:
                handle.remove()

    def _save_result(self, module: nn.Module, _, result: Any) -> None:
        self._results[module] = result

    def _save_out_proj_input(self, module: nn.Module, args: tuple) -> None:
        self._out_proj_inputs[module] = args

    def ablate(self, site: Site, change: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the model's output with ``change`` applied to a module's head outputs.

        Head outputs are (B, T, H, D). The layers below, the module's attention weights and, for a
        module of the decoder, the encoder are not computed again, but taken from the cache.
        """
        cached = {module: self._results[module] for module in self._unchanged(site)}
        merged = self._out_proj_inputs[site.attention.out_proj]
        output = site.attention.out_proj(*_change(site, change, merged))
        cached[site.attention] = self._results[site.attention]._replace(output=output)
        forwards = {m: lambda *_, a=a, **__: a for m, a in cached.items()}
        with _patched_forwards(forwards):
            return run_model(self._model, self._sample)

    def _unchanged(self, site: Site) -> Iterator[nn.Module]:
        side = SIDES[site.component]
        if side == "decoder" and hasattr(self._model, "encoder"):
            yield self._model.get_submodule("encoder")
        for other in self._sites:
            if SIDES[other.component] == side and other.number < site.number:
                yield other.layer
            # The decoder's first self-attention does not depend on the encoder's heads. In a
            # decoder layer, self-attention comes before the encoder-decoder attention.
            first = other.number == (1 if side == "encoder" else site.number)
            if other.component == "decoder" and site.component != "decoder" and first:
                yield other.attention


class CachedLosses:
    """The losses of a batch, and its losses with changed heads, by an activation cache.

    Attributes:
        losses: loss of every sentence in nats, (B,) float64.
        counts: number of tokens of every sentence, (B,) float64.
    """

    def __init__(self, model: nn.Module, sample: Sample):
        self._model, self._sample = model, sample
        self._cache = ActivationCache(model, sample)
        self.losses, self.counts = sentence_losses(model, sample, self._cache.output)

    def changed(self, site: Site, change: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the losses with ``change`` applied to a module's head outputs (B, T, H, D)."""
        return sentence_losses(self._model, self._sample, self._cache.ablate(site, change))[0]


def _change(site: Site, change: Callable[[Tensor], Tensor], args: tuple) -> tuple:
    merged, *rest = args
    heads = merged.unflatten(-1, (site.attention.num_heads, -1))
    return (change(heads).flatten(-2), *rest)


@contextmanager
def activation_checkpointing_off(model: nn.Module) -> Iterator[None]:
    """Context manager: disable activation checkpointing, with which gates get no gradients."""
    layers = {site.layer for site in sites_of(model) if "forward" in vars(site.layer)}
    with _patched_forwards({layer: MethodType(type(layer).forward, layer) for layer in layers}):
        yield


@contextmanager
def _patched_forwards(forwards: Mapping[nn.Module, Callable]) -> Iterator[None]:
    """Context manager: replace the ``forward`` of modules, and restore it on exit."""
    originals = {module: vars(module).get("forward") for module in forwards}
    try:
        for module, forward in forwards.items():
            module.forward = forward
        yield
    finally:
        for module, forward in originals.items():
            del module.forward
            if forward is not None:
                module.forward = forward


def unit_of(model: nn.Module) -> str:
    """Return what the loss of a model is a mean over: token, or example for a classifier."""
    return "token" if hasattr(model, "decoder") else "example"


ROWS = 1024  # rows of logits in memory at once


def sentence_losses(model: nn.Module, sample: Sample, output: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss of every sentence and its number of tokens.

    Args:
        model: a translation model, a language model, or a classifier.
        sample: fairseq's batch.
        output: result of :func:`run_model` for the batch.

    Returns:
        Negative log-likelihood in nats, summed over the tokens of each sentence, and the number of
        tokens: both (B,) float64. An example of a classifier counts as one token.
    """
    target = sample["target"]
    if unit_of(model) == "example":
        losses = F.cross_entropy(output, target.view(-1), reduction="none").double()
        return losses, torch.ones_like(losses)
    real = target.ne(_decoder(model).padding_idx)  # (B, T)
    losses = _token_losses(model, output[real], target[real])
    counts = real.sum(dim=1)
    rows = torch.arange(len(target), device=target.device).repeat_interleave(counts)
    sums = losses.new_zeros(len(target), dtype=torch.float64)
    return sums.index_add_(0, rows, losses.double()), counts.double()


def total_loss(model: nn.Module, sample: Sample, output: Tensor) -> Tensor:
    """Return the summed loss for a backward pass.

    If the output layer is a plain projection, the logits of the whole batch are not stored.
    """
    plain = hasattr(model, "decoder") and _decoder(model).adaptive_softmax is None
    weight = cast("OutputWeight", model).output_weight() if plain else None
    if weight is None:
        return sentence_losses(model, sample, output)[0].sum()
    padding, target = _decoder(model).padding_idx, sample["target"]
    return fused_label_smoothed_loss(output, weight.detach(), target, 0.0, padding)[0]


def _decoder(model: nn.Module) -> Any:
    return model.decoder


def _token_losses(model: nn.Module, features: Tensor, target: Tensor) -> Tensor:
    """Return the losses (N,) of the target tokens (N,) from features (N, C)."""
    softmax = _decoder(model).adaptive_softmax
    if softmax is not None:
        return _adaptive_losses(softmax, features, target)
    blocks = zip(features.split(ROWS), target.split(ROWS), strict=True)
    output = _decoder(model).output_layer
    return torch.cat([F.cross_entropy(output(x), y, reduction="none") for x, y in blocks])


def _adaptive_losses(softmax: AdaptiveSoftmax, features: Tensor, target: Tensor) -> Tensor:
    (head, *clusters), (head_target, *cluster_targets) = softmax(features, target)
    losses = F.cross_entropy(head, head_target, reduction="none")
    _, rows_by_cluster = softmax.adapt_target(target)
    for rows, logits, words in zip(rows_by_cluster, clusters, cluster_targets, strict=True):
        if rows is not None:
            losses = losses.index_add(0, rows, F.cross_entropy(logits, words, reduction="none"))
    return losses
