"""Multi-head attention with fairseq's contract and open seams."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from diverse_mha.attention.cached_keys import CachedKeys, fold_beams, unfold_beams
from diverse_mha.attention.drophead import drop_heads
from diverse_mha.attention.masks import causal_bias, merge_bias, padding_bias
from diverse_mha.attention.states import HeadStates

_FEW_KEYS = 256


class Attended(NamedTuple):
    """What ``DiverseAttention.attend`` returns."""

    output: Tensor  # (B, T, C)
    states: HeadStates  # without masks; the fields that were asked for
    logits: Tensor | None = None  # (B, H, T, S), for the next layer's cascade


class DiverseAttention(CachedKeys, MultiheadAttention):
    """Attention whose heads can be looked at, with stock parameter names.

    ``forward`` keeps the whole contract of ``fairseq.modules.MultiheadAttention``
    (time first, incremental state, static keys, ``need_head_weights``) except
    that ``need_head_weights`` gives every head on every path. The layers of this
    package call ``attend``, which is batch first: that is the layout in which
    ``scaled_dot_product_attention`` reads and writes without copies.

    Weights are materialised only if somebody asks for weights or logits, or where that
    is faster.

    Args:
        embed_dim: model width C.
        num_heads: H; must divide C.
        kdim: width of keys and values if it differs from C.
        dropout: dropout probability on the attention weights.
        self_attention: queries, keys and values come from one tensor.
        encoder_decoder_attention: keys come from the encoder and may be cached.
        aggregation: module from concatenated head outputs (..., C) to (..., C) in place
            of the output projection; None keeps the projection.
        cascade: module of ``diverse_mha.attention.cascade`` between q.k and the mask.
        carry_logits: hand the logits on, for the cascade of the next layer.
        drophead: probability that a head's output is zeroed in training, just before the
            aggregation; the recorded outputs are those before.

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
        drophead: float = 0.0,
    ):
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide embed_dim {embed_dim}")
        if not 0 <= drophead < 1:
            raise ValueError(f"drophead is {drophead}; expected at least 0 and below 1")
        super().__init__(
            embed_dim,
            num_heads,
            kdim=kdim,
            vdim=kdim,
            dropout=dropout,
            self_attention=self_attention,
            encoder_decoder_attention=encoder_decoder_attention,
        )
        if aggregation is not None:
            del self.out_proj
            self.out_proj = aggregation
        self.cascade = cascade
        self.carry_logits = carry_logits
        self.drophead = drophead

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
            attn_mask: (T, S); bool with True = may not attend, or float bias.
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
        bias = None
        if attn_mask is not None:
            bias = merge_bias(attn_mask, key_padding_mask, query.dtype)
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
            if bias is None and key_padding_mask is not None:
                bias = merge_bias(None, key_padding_mask, logits.dtype)
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
                holds ``key_padding_mask``; see ``diverse_mha.attention.masks``.
            causal: query t sees keys up to t; excludes ``bias``.
            key_padding_mask: (B, S), non-zero = padding; goes into the
                incremental state, and becomes the bias if none is given.
            incremental_state: fairseq's decoding state, or None.
            static_kv: keys do not change over decoding steps.
            previous_logits: (B, H, T, S), what the layer before handed on.
            wanted: names of ``HeadStates`` to fill in.

        Returns:
            Output (B, T, C), the states asked for, and with ``carry_logits`` the logits.
        """
        bsz, tgt_len, _ = query.shape
        q = self._split_heads(self.q_proj(query))  # (B, H, T, D)
        if incremental_state is None:
            k, v = self.project_keys(query if self.self_attention else key)
        else:
            k, v, key_padding_mask = self.cached_keys(
                query, key, key_padding_mask, incremental_state, static_kv
            )
        fold = bsz // k.size(0)
        if fold > 1 or (self.self_attention and incremental_state is not None):
            bias = None  # made for other keys than the cache holds
        if bias is None and not causal and key_padding_mask is not None:
            bias = padding_bias(key_padding_mask.to(torch.bool), q.dtype)
        if fold > 1:  # beams share the keys of their sentence
            q = fold_beams(q, fold)
            if previous_logits is not None:
                previous_logits = fold_beams(previous_logits, fold)
        if self._needs_logits(wanted) or _explicit_is_faster(q, k):
            logits, weights, outputs = self._explicit(q, k, v, bias, causal, previous_logits)
        else:
            logits = weights = None
            outputs = self._fused(q, k, v, bias, causal)
        if fold > 1:
            q, logits, weights, outputs = (
                None if x is None else unfold_beams(x, fold) for x in (q, logits, weights, outputs)
            )
        everything = HeadStates(q, k, v, logits, weights, outputs)
        states = HeadStates(**{name: getattr(everything, name) for name in wanted})
        if self.drophead and self.training:
            outputs = drop_heads(outputs, self.drophead)
        merged = outputs.transpose(1, 2).reshape(bsz, tgt_len, self.embed_dim)
        return Attended(self.out_proj(merged), states, logits if self.carry_logits else None)

    def _needs_logits(self, wanted: tuple[str, ...]) -> bool:
        """Whether this pass has to go through explicit logits and weights."""
        asked = "weights" in wanted or "logits" in wanted
        noisy = self.cascade is not None and self.training
        return asked or noisy or self.carry_logits

    def _split_heads(self, x: Tensor) -> Tensor:
        """(B, L, C) -> (B, H, L, D), a view."""
        return x.view(x.size(0), x.size(1), self.num_heads, self.head_dim).transpose(1, 2)

    def project_keys(self, key: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B, H, S, D) of a tensor (B, S, Ck)."""
        return self._split_heads(self.k_proj(key)), self._split_heads(self.v_proj(key))

    def _dropout_p(self) -> float:
        module = self.dropout_module
        return module.p if module.training or module.apply_during_inference else 0.0

    def _fused(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool) -> Tensor:
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=bias, dropout_p=self._dropout_p(), is_causal=causal
        )

    def _explicit(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        causal: bool,
        previous_logits: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        logits = torch.matmul(q * self.scaling, k.transpose(-1, -2))  # (B, H, T, S)
        if causal:
            bias = causal_bias(q.size(2), q.dtype, q.device)
        if self.cascade is not None:
            masked = None if bias is None else bias < 0
            logits = self.cascade(logits, previous_logits, masked)
        scores = logits if bias is None else logits + bias
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).type_as(v)
        outputs = torch.matmul(self.dropout_module(weights), v)  # (B, H, T, D)
        return logits, weights, outputs


def _explicit_is_faster(q: Tensor, k: Tensor) -> bool:
    """Whether matrix products beat the fused kernel: bfloat16 on the CPU, up to 256 keys.

    There torch 2.13's kernel takes 2 to 10 times as long; more keys cost too much memory.
    """
    return q.dtype == torch.bfloat16 and q.device.type == "cpu" and k.size(2) <= _FEW_KEYS
