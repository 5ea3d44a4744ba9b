"""What all attention modules share: from projected queries, keys and values to the output."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diverse_mha.attention.masks import causal_bias, lowest_bias
from diverse_mha.attention.states import HeadStates

_FEW_KEYS = 256


class Attended(NamedTuple):
    """The result of an attention module."""

    output: Tensor  # (B, T, C)
    states: HeadStates  # the wanted fields, without masks
    logits: Tensor | None = None  # (B, H, T, S), for the next layer


class OpenHeads:
    """A base for modules with ``num_heads`` and ``out_proj``; call ``open_heads`` first."""

    def open_heads(
        self,
        aggregation: nn.Module | None,
        cascade: nn.Module | None,
        carry_logits: bool,
        drophead: nn.Module | None,
    ) -> None:
        """Set the replaceable parts, after the constructor has made the projections.

        Args:
            aggregation: module from concatenated head outputs (..., C) to (..., C), in place of the
                output projection; None keeps that. If its ``sees_input`` is True, it also gets the
                layer's input (..., C).
            cascade: a ``LogitMap`` between q.k and the softmax.
            carry_logits: return the logits for the next layer.
            drophead: module that zeroes heads of (B, H, T, D) in training, just before the
                aggregation; recorded outputs are not affected.
        """
        if aggregation is not None:
            del self.out_proj
            self.out_proj = aggregation
        self.aggregation_sees_input = getattr(aggregation, "sees_input", False)
        self.cascade = cascade
        self.carry_logits = carry_logits
        self.drophead = drophead

    def attend_heads(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        bias: Tensor | None,
        causal: bool,
        dropout: float,
        previous_logits: Tensor | None,
        wanted: tuple[str, ...],
        layer_input: Tensor,
    ) -> Attended:
        """Attend and aggregate.

        Args:
            q: (B, H, T, D), not scaled.
            k: (B / fold, H, S, D); ``fold`` neighbouring rows of queries share them.
            v: as ``k``.
            bias: additive mask that broadcasts to (B / fold, H, fold * T, S); see ``fold_beams``.
            causal: query t sees keys up to t; excludes ``bias``.
            dropout: probability of zeroing a weight.
            previous_logits: (B, H, T, S) from the layer before.
            wanted: names of ``HeadStates`` to return.
            layer_input: (B, T, C), from which the queries are projected.

        Returns:
            Output (B, T, C), the wanted states and, with ``carry_logits``, the next layer's logits.
        """
        fold, handed_on = rows_per_key(q, k), previous_logits
        if fold > 1:
            q = fold_beams(q, fold)
            if previous_logits is not None:
                previous_logits = fold_beams(previous_logits, fold)
        if (
            "weights" in wanted
            or "logits" in wanted
            or self.carry_logits
            or (self.cascade is not None and self.cascade.acts(previous_logits))
            or _explicit_is_faster(q, k)
        ):
            logits, weights, outputs = self._explicit(
                q, k, v, bias, causal, dropout, previous_logits
            )
        else:
            logits = weights = None
            outputs = F.scaled_dot_product_attention(
                q, k, v, attn_mask=bias, dropout_p=dropout, is_causal=causal
            )
        if fold > 1:
            q, logits, weights, outputs = (
                None if x is None else _unfold_beams(x, fold) for x in (q, logits, weights, outputs)
            )
        everything = HeadStates(q, k, v, logits, weights, outputs)
        states = HeadStates(**{name: getattr(everything, name) for name in wanted})
        if self.drophead is not None and self.training:
            outputs = self.drophead(outputs)
        merged = outputs.transpose(1, 2).flatten(2)  # (B, T, C)
        seen = (merged, layer_input) if self.aggregation_sees_input else (merged,)
        carried = None
        if self.carry_logits:
            carried = logits
            if self.cascade is not None:
                carried = self.cascade.hand_on(logits, handed_on)
        return Attended(self.out_proj(*seen), states, carried)

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, L, C) -> (B, H, L, D), a view."""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def _explicit(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        causal: bool,
        dropout: float,
        previous_logits: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        logits = torch.matmul(q * q.size(-1) ** -0.5, k.transpose(-1, -2))  # (B, H, T, S)
        if causal:
            bias = causal_bias(q.size(2), q.dtype, q.device)
        if self.cascade is not None:
            masked = None if bias is None else bias < lowest_bias(bias.dtype) / 2
            logits = self.cascade(logits, previous_logits, masked, q, k)
        scores = logits if bias is None else logits + bias
        exact = torch.promote_types(scores.dtype, torch.float32)
        weights = F.softmax(scores, dim=-1, dtype=exact).type_as(v)
        mixed = weights if self.cascade is None else self.cascade.after_softmax(weights)
        kept = F.dropout(mixed, dropout) if dropout else mixed
        return logits, weights, torch.matmul(kept, v)  # outputs (B, H, T, D)


def check_heads(embed_dim: int, num_heads: int) -> None:
    """Raise ValueError if ``num_heads`` does not divide ``embed_dim``."""
    if num_heads < 1 or embed_dim % num_heads:
        raise ValueError(f"num_heads {num_heads} does not divide embed_dim {embed_dim}")


def rows_per_key(queries: Tensor, keys: Tensor) -> int:
    """Return how many neighbouring rows of queries share one of keys; 1 in an empty batch."""
    return queries.size(0) // keys.size(0) if keys.size(0) else 1


def fold_beams(x: Tensor, fold: int) -> Tensor:
    """Turn the beams of a sentence into further queries: (B, H, T, X) -> (B/fold, H, fold*T, X)."""
    x = x.view(-1, fold, *x.shape[1:])
    return x.transpose(1, 2).flatten(2, 3)


def _unfold_beams(x: Tensor, fold: int) -> Tensor:
    """Undo :func:`fold_beams`: (B/fold, H, fold*T, X) -> (B, H, T, X)."""
    x = x.view(x.size(0), x.size(1), fold, -1, x.size(-1))
    return x.transpose(1, 2).flatten(0, 1)


def _explicit_is_faster(q: Tensor, k: Tensor) -> bool:
    """Say whether matrix products beat the fused kernel; more keys would cost too much memory."""
    return q.dtype == torch.bfloat16 and q.device.type == "cpu" and k.size(2) <= _FEW_KEYS
