"""A drop-in replacement for ``torch.nn.MultiheadAttention`` that returns head states."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diverse_mha.attention.core import (
    Attended,
    OpenHeads,
    check_head_count,
    check_state_names,
    lowest_bias,
)
from diverse_mha.attention.registries import LogitMap, ProjectionMap


class MultiheadAttention(OpenHeads, nn.MultiheadAttention):
    """``torch.nn.MultiheadAttention`` with replaceable parts; needs torch only.

    Choose it to look at heads, to add a term to your loss, or to replace a part of attention, in a
    model of your own. Without parts it computes what torch's module computes.

    Constructor arguments up to ``dtype``, parameters, initial values and results are those of
    torch's module, and state dicts are interchangeable. ``attend`` also returns ``HeadStates``, for
    the terms of ``diverse_mha.methods``. Two results differ: weights are before dropout, and a
    query that may see no key gets finite numbers, not NaN.

    Args:
        aggregation: module that replaces the output projection, such as
            ``diverse_mha.methods.routing.RoutingAggregation``.
        logit_map: for instance ``diverse_mha.methods.coda.build_cascade(...)``.
        carry_logits: let ``attend`` return the logits, for the next layer.
        drophead: for instance ``diverse_mha.methods.drophead.DropHeads``, called in training.
        projections: a ``ProjectionMap``, such as ``diverse_mha.methods.qk_norm.QKNorm``.

    Raises:
        ValueError: if ``num_heads`` does not divide ``embed_dim``, or if ``projections`` adds the
            values of layer 1, as ``ValueResidual`` does.

    Example:
        >>> import torch
        >>> attention = MultiheadAttention(32, 4, batch_first=True)
        >>> x = torch.randn(2, 5, 32)
        >>> output, states, _ = attention.attend(x, x, x, wanted=("outputs",))
        >>> states.outputs.shape  # (B, H, T, D)
        torch.Size([2, 4, 5, 8])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        aggregation: nn.Module | None = None,
        logit_map: LogitMap | None = None,
        carry_logits: bool = False,
        drophead: nn.Module | None = None,
        projections: ProjectionMap | None = None,
    ):
        check_head_count(embed_dim, num_heads)
        if getattr(projections, "adds_first", False):
            raise ValueError(
                f"projections: {type(projections).__name__} adds the values of layer 1, and this "
                "module stands alone; use it in a model (option projections), or give another"
            )
        super().__init__(
            *(embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn),
            *(kdim, vdim, batch_first, device, dtype),
        )
        # Otherwise torch's encoder layers bypass this module at evaluation.
        self._qkv_same_embed_dim = False
        self.open_heads(aggregation, logit_map, carry_logits, drophead, projections)

    def _reset_parameters(self):
        """Draw torch's initial values, which depend on ``_qkv_same_embed_dim``."""
        projections = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        for weight in (self.in_proj_weight, *projections):
            if weight is not None:
                nn.init.xavier_uniform_(weight)
        projection = self.out_proj  # or an aggregation in its place
        own = projection.bias if isinstance(projection, nn.Linear) else None
        for bias in (self.in_proj_bias, own):
            if bias is not None:
                nn.init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                nn.init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend as torch's module does.

        Args:
            query: (B, T, C) with ``batch_first``, else (T, B, C); or (T, C), without a batch.
            key: (B, S, kdim), likewise.
            value: (B, S, vdim), likewise.
            key_padding_mask: (B, S), or (S,) without a batch; see ``attend``.
            need_weights: return the weights.
            attn_mask: (T, S) or (B * H, T, S); see ``attend``.
            average_attn_weights: return the mean of the weights over the heads.
            is_causal: a hint that ``attn_mask`` is causal; ignored.

        Returns:
            Output in the layout of ``query``, and the weights: (B, T, S), or (B, H, T, S) with
            ``average_attn_weights=False``, or None. Without a batch there is no B.

        Raises:
            ValueError: if ``is_causal`` comes without ``attn_mask``, or a tensor is nested.
        """
        if query.is_nested:
            raise ValueError(
                "nested tensors are not supported; build nn.TransformerEncoder with "
                "enable_nested_tensor=False"
            )
        if is_causal and attn_mask is None:
            raise ValueError("is_causal=True is only a hint about attn_mask; give attn_mask too")
        alone, batch = query.dim() == 2, 0 if self.batch_first else 1
        if alone:
            query, key, value = (x.unsqueeze(batch) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        attended = self.attend(
            query,
            key,
            value,
            key_padding_mask=key_padding_mask,
            attn_mask=attn_mask,
            wanted=("weights",) if need_weights else (),
        )
        output, weights = attended.output, attended.states.weights
        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)  # (B, T, S)
        if alone:
            output = output.squeeze(batch)
            weights = None if weights is None else weights.squeeze(0)
        return output, weights

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        previous_logits: Tensor | None = None,
        wanted: tuple[str, ...] = (),
    ) -> Attended:
        """Attend, and return head states too.

        Args:
            query: (B, T, C) with ``batch_first``, else (T, B, C).
            key: (B, S, kdim), likewise.
            value: (B, S, vdim), likewise.
            key_padding_mask: (B, S); bool with True = padding, or numbers added to the logits.
            attn_mask: (T, S) or (B * H, T, S); bool with True = may not attend, or numbers added
                to the logits.
            previous_logits: (B, H, T, S), the ``logits`` of the layer before, for a cascade.
            wanted: names of ``HeadStates`` to return.

        Returns:
            Output in the layout of ``query``, the wanted states (batch first, without masks), and
            with ``carry_logits`` the logits. ``add_bias_kv`` and ``add_zero_attn`` append keys.

        Raises:
            ValueError: for an unknown head state, another shape or dtype, ``previous_logits``
                without a cascade, or an aggregation that takes each query's own value, such as
                ``Exclusive``, with another number of keys than queries.
        """
        check_state_names(wanted)
        if previous_logits is not None and self.cascade is None:
            raise ValueError("previous_logits needs a cascade; build the module with a cascade")
        if not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        self._check_shapes(query, key, value, key_padding_mask, attn_mask)
        if self.aggregation_sees_values and key.size(1) != query.size(1):
            raise ValueError(
                f"query has {query.size(1)} positions and key {key.size(1)}, but "
                f"{type(self.out_proj).__name__} takes the value at each query's own position; "
                "give query, key and value of the same sequence"
            )
        q, k, v = self._project(query, key, value)
        appended = k.size(1) - key.size(1)
        bias = self._bias(key_padding_mask, attn_mask, q, appended)
        q, k, v = (self.split_heads(x) for x in (q, k, v))
        if self.projections is not None:
            q = self.projections.queries(q)
            k, v, _ = self.map_projections(k, v)
        attended = self.attend_heads(
            *(q, k, v),
            bias=bias,
            causal=False,
            dropout=self.dropout if self.training else 0.0,
            previous_logits=previous_logits,
            wanted=wanted,
            layer_input=query,
            appended=appended,
        )
        output = attended.output
        return attended._replace(output=output if self.batch_first else output.transpose(0, 1))

    def _check_shapes(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
    ) -> None:
        """Raise ValueError for wrong shapes, which could broadcast; tensors are batch first."""
        batch, length, keys = query.size(0), query.size(1), key.size(1)
        layout = "" if self.batch_first else ", batch first,"
        for name, x, *shapes in (
            ("query" + layout, query, (batch, length, self.embed_dim)),
            ("key" + layout, key, (batch, keys, self.kdim)),
            ("value" + layout, value, (batch, keys, self.vdim)),
            ("key_padding_mask", key_padding_mask, (batch, keys)),
            ("attn_mask", attn_mask, (length, keys), (batch * self.num_heads, length, keys)),
        ):
            if x is not None and x.shape not in shapes:
                expected = " or ".join(map(str, shapes))
                raise ValueError(f"{name} has shape {tuple(x.shape)}; expected {expected}")

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """Return queries (B, T, C), keys and values (B, S, C) with bias_k, bias_v and zero keys."""
        if self.in_proj_weight is not None:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = map(F.linear, (query, key, value), weights, biases)
        if self.bias_k is not None and self.bias_v is not None:
            k, v = (
                torch.cat([x, own.to(x.dtype).expand(x.size(0), 1, -1)], dim=1)
                for x, own in ((k, self.bias_k), (v, self.bias_v))
            )
        if self.add_zero_attn:
            k, v = (F.pad(x, (0, 0, 0, 1)) for x in (k, v))
        return q, k, v

    def _bias(
        self, key_padding_mask: Tensor | None, attn_mask: Tensor | None, q: Tensor, extra: int
    ) -> Tensor | None:
        """Merge the masks into one bias; the last ``extra`` keys are never masked."""
        bias = None
        if attn_mask is not None:
            bias = _additive("attn_mask", attn_mask, q.dtype)
            bias = bias.unflatten(0, (-1, self.num_heads)) if bias.dim() == 3 else bias
        if key_padding_mask is not None:
            padding = _additive("key_padding_mask", key_padding_mask, q.dtype)[:, None, None, :]
            bias = padding if bias is None else bias + padding
        if bias is None:
            return None
        return F.pad(bias.clamp(min=lowest_bias(q.dtype)), (0, extra))


def _additive(name: str, mask: Tensor, dtype: torch.dtype) -> Tensor:
    if mask.dtype != torch.bool:
        if not mask.is_floating_point():
            raise ValueError(f"{name} has dtype {mask.dtype}; expected bool or floating point")
        return mask.to(dtype).clamp(min=lowest_bias(dtype))
    zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return zeros.masked_fill_(mask, lowest_bias(dtype))
