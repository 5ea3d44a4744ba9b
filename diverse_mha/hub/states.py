"""Head states of one batch of a model of transformers, and the loss of the terms."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from diverse_mha.attention import HeadStates
from diverse_mha.common.errors import Option, UserError, as_argument
from diverse_mha.methods.diversity import DiversityTerms, Measured, logged_values

IGNORED = -100  # label that transformers leaves out of the loss


def refused(*parts: str | Option) -> UserError:
    """Return an error whose options are spelt as arguments of ``HeadTerms``: ``drophead=2``."""
    return UserError(UserError(*parts).spelt(as_argument))


class Recorder:
    """Records the head states of a model's attention.

    Attributes:
        wanted: names of the head states to record, by component. They stay set between batches,
            because activation checkpointing recomputes attention in the backward pass.
        batch: the batch that is being recorded, or None.
        changes: attention module -> function of its head outputs (B, T, H, D), for ablations.
    """

    def __init__(self):
        self.wanted: dict[str, tuple[str, ...]] = {}
        self.batch: Any = None  # a Batch, or what collects states by the same ``add``
        self.changes: dict[nn.Module, Callable[[Tensor], Tensor]] = {}


class Batch:
    """Head states of one batch; made by ``HeadTerms.collect``."""

    def __init__(
        self,
        terms: DiversityTerms,
        factor: float,
        components: Iterable[str],
        inputs: Mapping[str, Any],
        encoder_decoder: bool,
        shifted: bool = False,
    ):
        self._terms, self._factor = terms, factor
        self._states: dict[str, list[HeadStates]] = {name: [] for name in components}
        self._decoder_padding = decoder_padding(inputs) if encoder_decoder else None
        self._paddings: list[tuple[Tensor, Tensor]] = []
        self._differentiable = torch.is_grad_enabled()
        self._training, self._attended = False, False
        self._measured: dict[str, Measured] | None = None
        self._labels, self._sentences = label_count(inputs, shifted), 0

    def add(
        self,
        component: str,
        states: HeadStates,
        mask: Tensor | None,
        size: tuple[int, int, int],
        module: nn.Module,
    ) -> None:
        """Record the head states of a layer.

        Args:
            component: ``encoder``, ``cross`` or ``decoder``.
            states: the states that terms need, without padding masks.
            mask: as in ``attention.attend``.
            size: (B, T, S).
            module: the attention module.
        """
        self._attended, self._training = True, module.training
        self._sentences = self._sentences or size[0]
        if all(x is None for x in states):
            return
        if self._differentiable and not torch.is_grad_enabled():
            raise refused(
                *self._terms.options,
                f": {component} attention runs without gradient; checkpoint activations with "
                "use_reentrant=False, or choose other components",
            )
        bsz, queries, keys = size
        key_padding = self._key_padding(mask, bsz)
        query_padding = key_padding if queries == keys and component != "cross" else None
        known = self._decoder_padding
        if component != "encoder" and known is not None and known.shape == (bsz, queries):
            query_padding = known
            key_padding = known if component == "decoder" and queries == keys else key_padding
        elif component == "cross" and self._states.get("decoder"):
            last = self._states["decoder"][-1].query_padding_mask
            query_padding = last if last is not None and last.shape == (bsz, queries) else None
        states = states._replace(query_padding_mask=query_padding, key_padding_mask=key_padding)
        layers = self._states[component]
        if layers and not _same_positions(layers[0], states):
            raise refused(
                *self._terms.options,
                f": layers of {component} attention see different positions or devices in one "
                "batch; call the model once per batch, or choose other components",
            )
        layers.append(states)

    def _key_padding(self, mask: Tensor | None, bsz: int) -> Tensor | None:
        """Return (B, S), True = no query may attend to the key; computed once per mask."""
        if mask is None:
            return None
        for known, padding in self._paddings:
            if known is mask:
                return padding
        seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
        padding = ~seen.any(dim=2).any(dim=1)
        padding = padding.expand(bsz, -1)
        # Masks with and without a sliding window have the same padding: keep one tensor for both.
        for _, other in self._paddings:
            if other.shape == padding.shape and torch.equal(other, padding):
                padding = other
        self._paddings.append((mask, padding))
        return padding

    @property
    def sample_size(self) -> Tensor | int:
        """Number of labels (without labels: of sentences), the divisor of the batch's loss."""
        return self._sentences if self._labels is None else self._labels

    @property
    def measured(self) -> dict[str, Measured]:
        """Values of the terms by logged name, computed once; empty if the schedule's factor is 0.

        Raises:
            UserError: if no attention of the model ran.
        """
        if not self._attended:
            raise UserError(
                "HeadTerms: no attention of the model ran in this batch; run the model given to "
                "HeadTerms inside collect, not a copy or another model"
            )
        if self._measured is None:
            recorded = self._factor and any(self._states.values())
            self._measured = {}
            if recorded:
                self._measured = self._terms.measure(self._states, self.sample_size, self._training)
        return self._measured

    @property
    def values(self) -> dict[str, float]:
        """Unweighted values of the terms, such as ``{"hsic": 12.5}``.

        If a term acts on several components, ``hsic`` is the sum of ``hsic_encoder`` and others.
        """
        return {
            name: float(torch.as_tensor(value).detach())
            for name, value in logged_values(self.measured).items()
        }

    def loss(self) -> Tensor | float:
        """Return the weighted sum of the terms, which is added to the mean loss of the batch."""
        return sum((self._factor * term.loss for term in self.measured.values()), start=0.0)


def _same_positions(one: HeadStates, other: HeadStates) -> bool:
    """Return True if two layers see the same positions, on the same device."""
    masks = ("query_padding_mask", "key_padding_mask")
    return all(
        first is second or None not in (first, second) and torch.equal(first, second)
        for first, second in ((getattr(one, name), getattr(other, name)) for name in masks)
    ) and all(
        first is None
        or second is None
        or (first.shape[2], first.device) == (second.shape[2], second.device)
        for first, second in zip(one[:6], other[:6], strict=True)
    )


def decoder_padding(inputs: Mapping[str, Any]) -> Tensor | None:
    """Return the padding mask (B, T) of an encoder-decoder's decoder input, True = padding."""
    mask, labels = inputs.get("decoder_attention_mask"), inputs.get("labels")
    if torch.is_tensor(mask) and mask.dim() == 2:
        return mask == 0
    return labels == IGNORED if torch.is_tensor(labels) and labels.dim() == 2 else None


def label_count(inputs: Mapping[str, Any], shifted: bool) -> Tensor | None:
    """Return the number of labels in the loss; None without labels.

    Args:
        inputs: inputs of the model.
        shifted: True if the loss leaves out the first label, as in language models.
    """
    labels = inputs.get("shift_labels")
    if labels is None:
        labels = inputs.get("labels")
        labels = labels[..., 1:] if shifted and torch.is_tensor(labels) else labels
    if not torch.is_tensor(labels):
        return None
    return (labels != IGNORED).sum().clamp_min(1)
