"""Multi-head attention with fairseq's parameters and decoding state, and open seams."""

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from diverse_mha.attention import Attended
from diverse_mha.attention.core import OpenHeads
from diverse_mha.attention.masks import padding_bias
from diverse_mha.models.cached_keys import CachedKeys


class DiverseAttention(OpenHeads, CachedKeys, MultiheadAttention):
    """Attention that shows its heads, with stock parameter names; called batch first.

    Args:
        embed_dim: model width C.
        num_heads: H; must divide C.
        kdim: width of keys and values if it differs from C.
        dropout: dropout probability on the attention weights.
        self_attention: queries, keys and values come from one tensor.
        encoder_decoder_attention: keys come from the encoder and may be cached.
        aggregation: see ``OpenHeads.open_heads``, like the next three.
        cascade: None for none.
        carry_logits: return the logits for the next layer.
        drophead: module that drops heads in training.
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
        drophead: nn.Module | None = None,
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
        self.open_heads(aggregation, cascade, carry_logits, drophead)

    def forward(
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
            key: (B, S, Ck), keys and values; ignored by self-attention, None with cached static
                keys.
            bias: additive mask that broadcasts to (B, H, T, S) and includes ``key_padding_mask``;
                see ``diverse_mha.attention.masks``.
            causal: query t sees keys up to t, which also hides padding on the right; excludes
                ``bias``, and ``key_padding_mask`` is ignored.
            key_padding_mask: (B, S), non-zero = padding; becomes the bias if none is given.
            incremental_state: fairseq's decoding state, or None. It keeps keys and their padding;
                excludes ``bias`` and ``causal``.
            static_kv: keys do not change over decoding steps.
            previous_logits: (B, H, T, S) from the layer before.
            wanted: names of ``HeadStates`` to return.

        Returns:
            Output (B, T, C), the wanted states, and with ``carry_logits`` the logits.
        """
        q = self.split_heads(self.q_proj(query))  # (B, H, T, D)
        if incremental_state is None:
            k, v = self.project_keys(query if self.self_attention else key)
        else:
            k, v, key_padding_mask = self.cached_keys(
                query, key, key_padding_mask, incremental_state, static_kv
            )
        if key_padding_mask is not None and bias is None and not causal:
            bias = padding_bias(key_padding_mask.to(torch.bool), q.dtype)
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
        """Return keys and values (B, H, S, D) of a tensor (B, S, Ck)."""
        return self.split_heads(self.k_proj(key)), self.split_heads(self.v_proj(key))
