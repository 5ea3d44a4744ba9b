"""The attention module of every model: fairseq's parameters, replaceable parts, head states."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from diverse_mha.attention import HeadStates, LogitMap, ProjectionMap
from diverse_mha.attention.core import OpenHeads, launches_cost, padding_bias
from diverse_mha.common.errors import Option
from diverse_mha.models.cached_keys import CachedKeys
from diverse_mha.models.pruned_heads import HEAD_AXES, shrink


class LayerAttended(NamedTuple):
    """The result of a model's attention module: the fields of ``Attended``, and first values."""

    output: Tensor  # (B, T, C)
    states: HeadStates  # the wanted fields, without masks
    logits: Tensor | None = None  # (B, H, T, S), for the next layer
    first_values: Tensor | None = None  # (B, H, S, D), values of layer 1, for the next layer


class DiverseAttention(OpenHeads, CachedKeys, MultiheadAttention):
    """fairseq's attention, batch first, that returns head states. Same parameter names.

    Args:
        embed_dim: model width C.
        num_heads: H; must divide C.
        kdim: width of keys and values if it differs from C.
        dropout: dropout probability on the attention weights.
        self_attention: queries, keys and values come from one tensor.
        encoder_decoder_attention: keys come from the encoder and may be cached.
        aggregation: module that replaces the output projection; see ``OpenHeads.open_heads``.
        logit_map: a ``LogitMap``, or None.
        carry_logits: return the logits for the next layer.
        drophead: module that drops heads in training.
        projections: a ``ProjectionMap``, or None.
        carry_values: return the values of layer 1 for the next layer.
        pruned: numbers, from 1, of the heads that are removed; at least one head is left.
        head_axes: name of a parameter of the parts above -> its dimension of heads.
        tied_by: option and method that forbids removing heads, or None.

    Attributes:
        all_heads: number of heads, including the pruned ones.
        kept_heads: numbers, from 1, of the heads that are left; ``num_heads`` counts them.
        head_axes: name of every parameter with a dimension of heads -> that dimension.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        kdim: int | None = None,
        dropout: float = 0.0,
        self_attention: bool = False,
        encoder_decoder_attention: bool = False,
        aggregation: nn.Module | None = None,
        logit_map: LogitMap | None = None,
        carry_logits: bool = False,
        drophead: nn.Module | None = None,
        projections: ProjectionMap | None = None,
        carry_values: bool = False,
        pruned: tuple[int, ...] = (),
        head_axes: Mapping[str, int] | None = None,
        tied_by: Option | None = None,
    ):
        super().__init__(
            embed_dim,
            num_heads,
            kdim=kdim,
            vdim=kdim,
            dropout=dropout,
            self_attention=self_attention,
            encoder_decoder_attention=encoder_decoder_attention,
        )
        self.open_heads(aggregation, logit_map, carry_logits, drophead, projections, carry_values)
        self.all_heads, self.tied_by = num_heads, tied_by
        self.head_axes = {**HEAD_AXES, **(head_axes or {})}
        self.kept_heads = tuple(n for n in range(1, num_heads + 1) if n not in pruned)
        if pruned:
            shrink(self, self.head_axes, self.kept_heads, num_heads)
            self.num_heads = len(self.kept_heads)

    # Batch first, with other arguments than fairseq's: only our layers call it.
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        query: Tensor,
        key: Tensor | None,
        *,
        bias: Tensor | None = None,
        causal: bool = False,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict | None = None,
        static_kv: bool = False,
        previous_logits: Tensor | None = None,
        first_values: Tensor | None = None,
        wanted: tuple[str, ...] = (),
    ) -> LayerAttended:
        """Attend, batch first.

        Args:
            query: (B, T, C).
            key: (B, S, Ck), keys and values; ignored by self-attention, None with cached static
                keys.
            bias: additive mask that broadcasts to (B, H, T, S) and includes ``key_padding_mask``;
                see ``diverse_mha.attention.core``.
            causal: query t sees keys up to t, which also hides padding on the right; excludes
                ``bias``, and ``key_padding_mask`` is ignored.
            key_padding_mask: (B, S), non-zero = padding; becomes the bias if none is given.
            incremental_state: fairseq's decoding state, or None. It keeps keys and their padding;
                excludes ``bias`` and ``causal``.
            static_kv: keys do not change over decoding steps.
            previous_logits: (B, H, T, S) from the layer before.
            first_values: (B, H, S, D) of layer 1, from the layer before.
            wanted: names of ``HeadStates`` to return.

        Returns:
            Output (B, T, C), the wanted states, with ``carry_logits`` the logits, and with
            ``carry_values`` the values of layer 1.
        """
        joint = self._project_jointly(query) if incremental_state is None else None
        q = self.split_heads(self.q_proj(query)) if joint is None else joint[0]  # (B, H, T, D)
        if self.projections is not None:
            q = self.projections.queries(q)
        if joint is not None:
            k, v, carried = self.map_projections(*joint[1:], first_values)
        elif incremental_state is None:
            source = query if self.self_attention or key is None else key
            k, v, carried = self.project_keys(source, first_values)
        else:
            k, v, key_padding_mask, carried = self.cached_keys(
                query, key, key_padding_mask, incremental_state, static_kv, first_values
            )
        if key_padding_mask is not None and bias is None and not causal:
            bias = padding_bias(key_padding_mask.to(torch.bool), q.dtype)
        module = self.dropout_module
        dropping = module.training or module.apply_during_inference
        attended = self.attend_heads(
            q,
            k,
            v,
            bias=bias,
            causal=causal,
            dropout=module.p if dropping else 0.0,
            previous_logits=previous_logits,
            wanted=wanted,
            layer_input=query,
        )
        return LayerAttended(*attended, carried)

    def project_keys(
        self, key: Tensor, first_values: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return keys and values (B, H, S, D) of (B, S, Ck), and values for the next layer."""
        k, v = self.split_heads(self.k_proj(key)), self.split_heads(self.v_proj(key))
        return self.map_projections(k, v, first_values)

    def _project_jointly(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
        """Return queries, keys and values (B, H, L, D) by one matrix product; None if it is slower.

        One product instead of three launches half as many kernels, and keeps a copy of the weights
        until the backward pass. Rounding differs.
        """
        parts = (self.q_proj, self.k_proj, self.v_proj)
        if not (self.self_attention and self.training and launches_cost(x.device)):
            return None
        if any(type(p) is not nn.Linear or p._forward_hooks or p._forward_pre_hooks for p in parts):
            return None  # quantised, or with hooks
        weight, bias = (torch.cat([getattr(p, name) for p in parts]) for name in ("weight", "bias"))
        joint = F.linear(x, weight, bias).unflatten(-1, (3, self.num_heads, -1))
        if self.cascade is None:
            q, k, v = joint.unbind(2)
            return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        # Made contiguous once; otherwise each matrix product would copy its operand.
        q, k, v = joint.permute(2, 0, 3, 1, 4).contiguous().unbind()  # from (3, B, H, L, D)
        return q, k, v
