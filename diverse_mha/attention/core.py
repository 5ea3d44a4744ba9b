"""Attention core of all modules: from projected queries, keys and values to the output.

The seams, where a method replaces the standard part::

    x --[1: PROJECTIONS]--> q, k, v --> q k^T / sqrt(D) --[2: LOGITS]--> + mask --> softmax
                                                              |                        |
                                                logits of the next layer            weights
                                                                                       v
    output <-- [4: AGGREGATION] <-- [3: DROPHEAD] <-- outputs of the heads (B, H, T, D) = weights v

    HeadStates(queries, keys, values, weights, logits, outputs) --[5: TERMS]--> added to the loss
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diverse_mha.attention.registries import LogitMap, ProjectionMap


def lowest_bias(dtype: torch.dtype) -> float:
    """Return half the dtype's lowest number, so that adding a logit cannot overflow."""
    return torch.finfo(dtype).min / 2


def launches_cost(device: torch.device) -> bool:
    """Return True if launching a small operation takes as long as running it, as on a GPU."""
    return device.type != "cpu"


def logit_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of logits in a layer that reads x: half precision under autocast."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def padding_bias(key_padding_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a key padding mask (B, S), True = padding, into a bias (B, 1, 1, S) on the logits."""
    bias = torch.zeros(key_padding_mask.shape, dtype=dtype, device=key_padding_mask.device)
    bias.masked_fill_(key_padding_mask, lowest_bias(dtype))
    return bias[:, None, None, :]


def causal_bias(length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a bias (1, 1, length, length) that hides every key after the query."""
    lowest = lowest_bias(dtype)
    return torch.full((1, 1, length, length), lowest, dtype=dtype, device=device).triu(1)


class HeadStates(NamedTuple):
    """Tensors of one attention module in one forward pass; unwanted tensors are None.

    Nothing is detached, so the gradient of a loss on these tensors reaches the parameters. B is the
    batch size, H heads, T queries, S keys, D = model width / H; T = S in self-attention.
    """

    queries: Tensor | None = None  # (B, H, T, D), after projection, not scaled
    keys: Tensor | None = None  # (B, H, S, D)
    values: Tensor | None = None  # (B, H, S, D)
    logits: Tensor | None = None  # (B, H, T, S), before the mask: finite everywhere
    weights: Tensor | None = None  # (B, H, T, S), rows sum to 1, before dropout and talking heads
    outputs: Tensor | None = None  # (B, H, T, D), weights (in training after dropout) @ values
    query_padding_mask: Tensor | None = None  # (B, T) bool, True = padding; None = no padding
    key_padding_mask: Tensor | None = None  # (B, S) bool, True = padding; None = no padding

    def required(self, name: str) -> Tensor:
        """Return the tensor ``name``, for code that has asked for it, such as a term.

        Raises:
            ValueError: if the record lacks it.
        """
        tensor = getattr(self, name)
        if tensor is None:
            raise ValueError(f"head states: {name} were not recorded; ask for {name!r}")
        return tensor


STATE_NAMES = HeadStates._fields[:6]
COMPONENTS = ("encoder", "cross", "decoder")

Wanted = tuple[str, ...] | Mapping[str, tuple[str, ...]]
"""Names of head states: a tuple for every component, or a mapping by component."""


def check_state_names(names: Wanted) -> Wanted:
    """Return the names as a tuple or mapping.

    Raises:
        ValueError: for an unknown head state or component.
    """
    if isinstance(names, Mapping):
        for component in names:
            if component not in COMPONENTS:
                raise ValueError(
                    f"head states: unknown component {component!r}; choose from {COMPONENTS}"
                )
        return {component: _known_states(own) for component, own in names.items()}
    return _known_states(names)


def _known_states(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in [names] if isinstance(names, str) else names:
        if isinstance(names, str) or name not in STATE_NAMES:
            raise ValueError(f"head states: unknown {name!r}; choose from {STATE_NAMES}")
    return tuple(names)


def wanted_of(names: Wanted, component: str) -> tuple[str, ...]:
    """Return the names for one component."""
    return names.get(component, ()) if isinstance(names, Mapping) else names


_FEW_KEYS = 256


class Attended(NamedTuple):
    """The result of an attention module."""

    output: Tensor  # (B, T, C)
    states: HeadStates  # the wanted fields, without masks
    logits: Tensor | None = None  # (B, H, T, S), for the next layer


class OpenHeads:
    """Mixin for modules with ``num_heads`` and ``out_proj``: attention with replaceable parts.

    Call ``open_heads`` in the constructor.
    """

    num_heads: int
    training: bool
    out_proj: nn.Module  # the output projection, or the aggregation in its place
    projections: ProjectionMap | None
    cascade: LogitMap | None
    drophead: nn.Module | None
    carry_logits: bool
    carry_values: bool
    aggregation_sees_input: bool
    aggregation_sees_values: bool

    def open_heads(
        self,
        aggregation: nn.Module | None,
        logit_map: LogitMap | None,
        carry_logits: bool,
        drophead: nn.Module | None,
        projections: ProjectionMap | None = None,
        carry_values: bool = False,
    ) -> None:
        """Set the replaceable parts, after the constructor has made the projections.

        Args:
            aggregation: module from concatenated head outputs (..., C) to (..., C), instead of the
                output projection; None keeps the projection. A module with ``sees_input = True``
                also gets the layer's input, and one with ``sees_values = True`` the values.
            logit_map: a ``LogitMap`` between q.k and the softmax.
            carry_logits: return the logits for the next layer.
            drophead: module that zeroes heads of (B, H, T, D) in training, just before the
                aggregation; recorded outputs are not affected.
            projections: a ``ProjectionMap`` between the projections and q.k.
            carry_values: return the values of layer 1 for the next layer.
        """
        if aggregation is not None:
            del self.out_proj
            self.out_proj = aggregation
        self.aggregation_sees_input = getattr(aggregation, "sees_input", False)
        self.aggregation_sees_values = getattr(aggregation, "sees_values", False)
        self.projections, self.carry_values = projections, carry_values
        self.cascade = logit_map
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
        appended: int = 0,
    ) -> Attended:
        """Attend and aggregate.

        Args:
            q: (B, H, T, D), not scaled.
            k: (B / fold, H, S, D); ``fold`` neighbouring rows of queries share a row of keys.
            v: (B / fold, H, S, D).
            bias: additive mask that broadcasts to (B / fold, H, fold * T, S); see ``fold_beams``.
            causal: query t sees keys up to t; excludes ``bias``.
            dropout: probability of zeroing a weight.
            previous_logits: (B, H, T, S) from the layer before.
            wanted: names of ``HeadStates`` to return.
            layer_input: (B, T, C), from which the queries are projected.
            appended: number of keys at the end that belong to no position.

        Returns:
            Output (B, T, C), the wanted states and, with ``carry_logits``, the next layer's logits.
        """
        fold, unfolded_previous = rows_per_key(q, k), previous_logits
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
            q, outputs = (_unfold_beams(x, fold) for x in (q, outputs))
            if logits is not None and weights is not None:
                logits, weights = (_unfold_beams(x, fold) for x in (logits, weights))
        recorded = logits
        if logits is not None and self.cascade is not None:
            recorded = self.cascade.average(logits)
        everything = HeadStates(q, k, v, recorded, weights, outputs)
        states = HeadStates(**{name: getattr(everything, name) for name in wanted})
        if self.drophead is not None and self.training:
            outputs = self.drophead(outputs)
        merged = outputs.transpose(1, 2).flatten(2)  # (B, T, C)
        seen: tuple[Tensor, ...] = (merged,)
        if self.aggregation_sees_input:
            seen = (merged, layer_input)
        elif self.aggregation_sees_values:  # in decoding the queries are the last positions
            end = v.size(2) - appended
            seen = (merged, v[:, :, end - q.size(2) : end])
        carried = logits if self.carry_logits else None
        if carried is not None and self.cascade is not None:
            carried = self.cascade.carry(carried, unfolded_previous)
        return Attended(self.out_proj(*seen), states, carried)

    def map_projections(
        self, k: Tensor, v: Tensor, first_values: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Apply ``projections`` to keys and values (B, H, S, D).

        Returns:
            Keys, values, and the values of the first layer that runs for the next layer, or None.
        """
        carried = None
        if self.carry_values:
            carried = v if first_values is None else first_values
        projections = self.projections
        if carried is not None and first_values is None:  # layer 1, or layer drop left it out
            projections = None if getattr(projections, "adds_first", False) else projections
        if projections is not None:
            k, v = projections.keys_values(k, v, first_values)
        return k, v, carried

    def split_heads(self, x: Tensor) -> Tensor:
        """Return a view of (B, L, C) as (B, H, L, D)."""
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
            if bias is not None and bias.dim() == 4 and bias.size(1) > 1:  # a mask for each head
                samples = logits.size(1) // bias.size(1)
                bias = bias.repeat(1, samples, 1, 1) if samples > 1 else bias
        scores = logits if bias is None else logits + bias
        exact = torch.promote_types(scores.dtype, torch.float32)
        weights = F.softmax(scores, dim=-1, dtype=exact).type_as(v)
        mixed = weights
        if self.cascade is not None:
            weights = self.cascade.average(weights)
            mixed = self.cascade.after_softmax(weights, scores)
        kept = F.dropout(mixed, dropout) if dropout else mixed
        return logits, weights, torch.matmul(kept, v)  # outputs (B, H, T, D)


def check_head_count(embed_dim: int, num_heads: int) -> None:
    """Raise ValueError if ``num_heads`` does not divide ``embed_dim``."""
    if num_heads < 1 or embed_dim % num_heads:
        raise ValueError(f"num_heads {num_heads} does not divide embed_dim {embed_dim}")


def rows_per_key(queries: Tensor, keys: Tensor) -> int:
    """Return how many neighbouring rows of queries share a row of keys; 1 in an empty batch."""
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
    """Return True if matrix products beat the fused kernel and need little memory."""
    return q.dtype == torch.bfloat16 and q.device.type == "cpu" and k.size(2) <= _FEW_KEYS
