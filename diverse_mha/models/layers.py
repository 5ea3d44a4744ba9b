"""Encoder and decoder layers, batch first, that return the states of their heads.

Constructors are fairseq's, so parameter names, shapes and initial values are stock; the forward
passes are ours. A layer returns a flat tuple of tensors and None, because fairseq's activation
checkpointing passes gradients only through a flat tuple. The stack rebuilds ``HeadStates`` from six
tensors of this tuple.
"""

from collections.abc import Callable
from functools import partial

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from torch import Tensor, nn

from diverse_mha.attention import STATE_NAMES, HeadStates
from diverse_mha.models.attention import DiverseAttention, LayerAttended
from diverse_mha.models.parts import SIDES, Seams

WIDTH = len(STATE_NAMES)


def wrap_layer(layer: nn.Module, cfg) -> nn.Module:
    """Apply activation checkpointing and FSDP to a layer, as the options say."""
    if cfg.checkpoint_activations:
        layer.forward = partial(_with_autocast, layer.forward)
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
        layer.forward = partial(_record_autocast, layer.forward)
    # A checkpointed layer is always wrapped by FSDP, whatever its size.
    smallest = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    return fsdp_wrap(layer, min_num_params=smallest)


def _record_autocast(forward: Callable, x: Tensor, *args, **options):
    """Run a checkpointed layer; record the autocast settings for its recomputation.

    In the backward pass fairseq recomputes the layer without autocast. Another attention kernel
    might then run, and drop other weights.
    """
    device = x.device.type
    if torch.is_autocast_enabled(device):
        options["autocast"] = device, torch.get_autocast_dtype(device)
    return forward(x, *args, **options)


def _with_autocast(forward: Callable, *args, autocast: tuple | None = None, **options):
    if autocast is None:
        return forward(*args, **options)
    with torch.autocast(*autocast):
        return forward(*args, **options)


class _Layer:
    """Mixin of encoder and decoder layers; list it before fairseq's class."""

    _seams: Seams
    _number: int
    normalize_before: bool
    final_layer_norm: nn.Module
    dropout_module: nn.Module
    activation_dropout_module: nn.Module
    activation_fn: Callable[[Tensor], Tensor]
    fc1: nn.Module
    fc2: nn.Module
    self_attn: DiverseAttention

    def build_attention(self, component: str, embed_dim: int, cfg, **options) -> DiverseAttention:
        """Build an attention module of the layer."""
        heads = getattr(cfg, SIDES[component]).attention_heads
        options["dropout"] = cfg.attention_dropout
        return self._seams.build(component, self._number, embed_dim, heads, **options)

    def attend(
        self, norm: nn.Module, attention: DiverseAttention, x: Tensor, source=None, **options
    ) -> tuple[Tensor, LayerAttended]:
        """Return x plus attention to ``source`` (or x), and the attention's result."""
        query = norm(x) if self.normalize_before else x
        attended = attention(query, query if source is None else source, **options)
        x = x + self.dropout_module(attended.output)
        return x if self.normalize_before else norm(x), attended

    def feed_forward(self, x: Tensor) -> Tensor:
        """Return x plus the feed-forward block."""
        norm = self.final_layer_norm
        hidden = self.activation_fn(self.fc1(norm(x) if self.normalize_before else x))
        x = x + self.dropout_module(self.fc2(self.activation_dropout_module(hidden)))
        return x if self.normalize_before else norm(x)


class DiverseEncoderLayer(_Layer, TransformerEncoderLayerBase):
    """Self-attention and feed-forward block of the encoder.

    ``cfg`` is fairseq's nested configuration; layers are numbered from 1.
    """

    def __init__(self, cfg, seams: Seams, number: int):
        self._seams, self._number = (
            seams,
            number,
        )  # read while fairseq's constructor builds attention
        super().__init__(cfg)

    def build_self_attention(self, embed_dim, cfg):
        """Build the layer's attention module; called by fairseq's constructor."""
        return self.build_attention("encoder", embed_dim, cfg, self_attention=True)

    # Batch first, with other arguments than fairseq's: only our encoder calls it.
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        x: Tensor,
        bias: Tensor | None = None,
        previous_logits: Tensor | None = None,
        first_values: Tensor | None = None,
        wanted: tuple[str, ...] = (),
    ) -> tuple[Tensor | None, ...]:
        """Run the layer.

        Args:
            x: (B, S, C).
            bias: additive mask that broadcasts to (B, H, S, S).
            previous_logits: (B, H, S, S) of the layer before, in a cascade.
            first_values: (B, H, S, D), the values of layer 1, if a method carries them.
            wanted: names of ``HeadStates`` to return.

        Returns:
            Output (B, S, C); logits and first values for the next layer, or None; then the six
            tensors of the head states.
        """
        x, own = self.attend(
            self.self_attn_layer_norm,
            self.self_attn,
            x,
            bias=bias,
            previous_logits=previous_logits,
            first_values=first_values,
            wanted=wanted,
        )
        return (self.feed_forward(x), own.logits, own.first_values, *own.states[:WIDTH])


class DiverseDecoderLayer(_Layer, TransformerDecoderLayerBase):
    """Self-attention, attention to the encoder, and feed-forward block.

    ``cfg`` is fairseq's nested configuration; layers are numbered from 1. ``no_encoder_attn``
    leaves out the attention to the encoder.
    """

    encoder_attn: DiverseAttention | None

    def __init__(self, cfg, seams: Seams, number: int, no_encoder_attn: bool = False):
        self._seams, self._number = (
            seams,
            number,
        )  # read while fairseq's constructor builds attention
        super().__init__(cfg, no_encoder_attn)

    def build_self_attention(self, embed_dim, cfg, add_bias_kv=False, add_zero_attn=False):
        """Build the self-attention module; called by fairseq's constructor."""
        return self.build_attention("decoder", embed_dim, cfg, self_attention=True)

    def build_encoder_attention(self, embed_dim, cfg):
        """Build the attention to the encoder; called by fairseq's constructor."""
        kdim = cfg.encoder.embed_dim
        return self.build_attention(
            "cross", embed_dim, cfg, kdim=kdim, encoder_decoder_attention=True
        )

    # Batch first, with other arguments than fairseq's: only our decoder calls it.
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        cross_bias: Tensor | None = None,
        self_bias: Tensor | None = None,
        causal: bool = False,
        self_padding_mask: Tensor | None = None,
        incremental_state: dict | None = None,
        previous_logits: Tensor | None = None,
        previous_cross_logits: Tensor | None = None,
        first_values: Tensor | None = None,
        first_cross_values: Tensor | None = None,
        wanted: tuple[str, ...] = (),
        wanted_cross: tuple[str, ...] = (),
    ) -> tuple[Tensor | None, ...]:
        """Run the layer.

        Args:
            x: (B, T, C).
            encoder_out: (B, S, C), or None in a language model.
            encoder_padding_mask: (B, S) bool, True = padding.
            cross_bias: additive mask that broadcasts to (B, H, T, S).
            self_bias: additive mask that broadcasts to (B, H, T, T).
            causal: position t sees positions up to t; excludes ``self_bias``.
            self_padding_mask: (B, T) bool, True = padding; used in decoding.
            incremental_state: fairseq's decoding state, or None.
            previous_logits: (B, H, T, T) of the layer before, in a cascade.
            previous_cross_logits: (B, H, T, S), ``previous_logits`` of the attention to the
                encoder.
            first_values: (B, H, T, D), the values of layer 1, if a method carries them.
            first_cross_values: (B, H, S, D), ``first_values`` of the attention to the encoder.
            wanted: names of ``HeadStates`` to return of the self-attention.
            wanted_cross: names of ``HeadStates`` to return of the attention to the encoder.

        Returns:
            Output (B, T, C). Then, for the next layer: logits of the self-attention, logits of the
            attention to the encoder, first values of both, each or None. Then six tensors with the
            states of the self-attention, and six with those of the attention to the encoder.
        """
        x, own = self.attend(
            self.self_attn_layer_norm,
            self.self_attn,
            x,
            bias=self_bias,
            causal=causal,
            key_padding_mask=self_padding_mask,
            incremental_state=incremental_state,
            previous_logits=previous_logits,
            first_values=first_values,
            wanted=wanted,
        )
        cross = LayerAttended(x, HeadStates())
        if self.encoder_attn is not None and encoder_out is not None:
            x, cross = self.attend(
                self.encoder_attn_layer_norm,
                self.encoder_attn,
                x,
                encoder_out,
                bias=cross_bias,
                key_padding_mask=encoder_padding_mask,
                incremental_state=incremental_state,
                static_kv=True,
                previous_logits=previous_cross_logits,
                first_values=first_cross_values,
                wanted=wanted_cross,
            )
        x = self.feed_forward(x)
        carried = (own.logits, cross.logits, own.first_values, cross.first_values)
        return (x, *carried, *own.states[:WIDTH], *cross.states[:WIDTH])
