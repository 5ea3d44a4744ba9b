"""Multi-head attention with fairseq's contract and open seams."""

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from diverse_mha.attention import Attended
from diverse_mha.attention.core import OpenHeads, check_heads, fold_beams, rows_per_key
from diverse_mha.attention.masks import lowest_bias, merge_bias, padding_bias
from diverse_mha.models.cached_keys import CachedKeys


class DiverseAttention(OpenHeads, CachedKeys, MultiheadAttention):
    """Attention whose heads can be looked at, with stock parameter names.

    ``forward`` keeps the whole contract of ``fairseq.modules.MultiheadAttention``
    (time first, incremental state, static keys, ``need_head_weights``) except
    that ``need_head_weights`` gives every head on every path. The layers of this
    package call ``attend``, which is batch first: that is the layout in which
    ``scaled_dot_product_attention`` reads and writes without copies.

    Args:
        embed_dim: model width C.
        num_heads: H; must divide C.
        kdim: width of keys and values if it differs from C.
        dropout: dropout probability on the attention weights.
        self_attention: queries, keys and values come from one tensor.
        encoder_decoder_attention: keys come from the encoder and may be cached.
        aggregation: see ``OpenHeads.open_heads``, as for the other three.
        cascade: None for none.
        carry_logits: False for an attention without a successor.
        drophead: in [0, 1), or a module that drops heads.

    Raises:
        ValueError: if ``num_heads`` does not divide ``embed_dim``, or ``drophead`` is not
            in [0, 1).
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
        cascade: nn.Module | None = None,
        carry_logits: bool = False,
        drophead: float | nn.Module | None = 0.0,
    ):
        check_heads(embed_dim, num_heads)
        super().__init__(
            embed_dim,
            num_heads,
            kdim=kdim,
            vdim=kdim,
            dropout=dropout,
            self_attention=self_attention,
            encoder_decoder_attention=encoder_decoder_attention,
        )
        self.open_heads(aggregation, cascade, carry_logits, drophead)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend, in fairseq's time-first layout.

        Args:
            query: (T, B, C).
            key: (S, B, Ck), or None with cached static keys.
            value: (S, B, Ck); keys and values must be the same tensor.
            key_padding_mask: (B, S), non-zero = padding.
            incremental_state: fairseq's decoding state, or None.
            need_weights: return the weights, averaged over heads.
            static_kv: keys do not change over decoding steps.
            attn_mask: (T, S); bool with True = may not attend, or float bias. In incremental
                self-attention S counts the cached keys, and a mask of another size is left out.
            before_softmax: return masked logits and values instead.
            need_head_weights: return the weights of every head.

        Returns:
            Output (T, B, C) and weights: None, (B, T, S), or (H, B, T, S) with
            ``need_head_weights``. With ``before_softmax``: logits (B·H, T, S)
            and values (B·H, S, D).

        Raises:
            ValueError: if ``value`` is not ``key``.
        """
        if value is not key and not self.self_attention:
            raise ValueError("value must be the same tensor as key")
        wanted = ("weights",) if need_weights or need_head_weights else ()
        own = self.self_attention and incremental_state is not None
        bias = None
        if attn_mask is not None:
            # The padding of cached keys is added below, where it is known.
            bias = merge_bias(attn_mask, None if own else key_padding_mask, query.dtype)
        attended = self.attend(
            query.transpose(0, 1),
            None if key is None else key.transpose(0, 1),
            bias=bias,
            key_padding_mask=key_padding_mask,
            incremental_state=incremental_state,
            static_kv=static_kv,
            wanted=("logits", "values") if before_softmax else wanted,
        )
        states = attended.states
        if before_softmax:
            logits = states.logits
            if incremental_state is not None:
                key_padding_mask = self.cached_padding(incremental_state)
            if own and attn_mask is not None and not _is_for(attn_mask, *logits.shape[-2:]):
                attn_mask = None
            bias = merge_bias(attn_mask, key_padding_mask, logits.dtype)
            logits = logits if bias is None else logits + bias
            return logits.flatten(0, 1), states.values.flatten(0, 1)
        output = attended.output.transpose(0, 1)
        if need_head_weights:
            return output, states.weights.transpose(0, 1)  # (H, B, T, S)
        return output, states.weights.mean(dim=1) if need_weights else None  # (B, T, S)

    def attend(
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
        wanted: tuple[str, ...] = (),
    ) -> Attended:
        """Attend, batch first.

        Args:
            query: (B, T, C).
            key: (B, S, Ck), keys and values; ignored by self-attention, None
                with cached static keys.
            bias: additive mask that broadcasts to (B, H, T, S) and already
                holds ``key_padding_mask``; see ``diverse_mha.attention.masks``. In incremental
                self-attention S counts the cached keys, and a bias of another size is left out.
            causal: query t sees keys up to t; excludes ``bias``.
            key_padding_mask: (B, S), non-zero = padding; goes into the
                incremental state, and becomes the bias if none is given.
            incremental_state: fairseq's decoding state, or None.
            static_kv: keys do not change over decoding steps.
            previous_logits: (B, H, T, S), what the layer before handed on.
            wanted: names of ``HeadStates`` to fill in.

        Returns:
            Output (B, T, C), the states asked for, and with ``carry_logits`` the logits.

        Raises:
            ValueError: if ``key`` has another batch size, with neither ``incremental_state`` nor
                ``static_kv``.
        """
        q = self.split_heads(self.q_proj(query))  # (B, H, T, D)
        if incremental_state is None:
            k, v = self.project_keys(query if self.self_attention else key)
            if not static_kv and k.size(0) != q.size(0):  # else rows of queries may share keys
                raise ValueError(
                    f"key has batch size {k.size(0)}; expected that of query, {q.size(0)}"
                )
        else:
            k, v, key_padding_mask = self.cached_keys(
                query, key, key_padding_mask, incremental_state, static_kv
            )
        fold = rows_per_key(q, k)  # beams of a sentence, which share its keys
        cached = self.self_attention and incremental_state is not None
        if bias is not None and cached and not _is_for(bias, q.size(2), k.size(2)):
            bias = None  # made for other keys than the cache holds
        if bias is not None and fold > 1:
            bias = fold_beams(bias.expand(q.size(0), -1, q.size(2), -1), fold)
        if key_padding_mask is not None:
            padding = key_padding_mask.to(torch.bool)
            if bias is None and not causal:
                bias = padding_bias(padding, q.dtype)
            elif bias is not None and (cached or fold > 1):
                bias = bias.masked_fill(padding[:, None, None, :], lowest_bias(bias.dtype))
        module = self.dropout_module
        dropping = module.training or module.apply_during_inference
        return self.attend_heads(
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

    def project_keys(self, key: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B, H, S, D) of a tensor (B, S, Ck)."""
        return self.split_heads(self.k_proj(key)), self.split_heads(self.v_proj(key))


def _is_for(mask: Tensor, queries: int, keys: int) -> bool:
    """Whether a mask (..., T, S) is one for these numbers; in decoding a stale one may come."""
    return mask.size(-1) == keys and mask.size(-2) in (1, queries)
