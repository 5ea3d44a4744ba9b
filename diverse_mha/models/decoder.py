"""The decoder stack of translation and language models."""

from typing import NamedTuple

import torch
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor

from diverse_mha.attention import HeadStates, Wanted, wanted_of
from diverse_mha.attention.core import causal_bias, logit_dtype, padding_bias
from diverse_mha.models.attention import CachedKeys
from diverse_mha.models.layers import WIDTH, DiverseDecoderLayer, wrap_layer
from diverse_mha.models.parts import Seams


class _Masks(NamedTuple):
    """Padding and causal masks, made once per batch."""

    own_padding: Tensor | None  # (B, T) bool, True = padding
    self_bias: Tensor | None
    causal: bool
    cross_padding: Tensor | None  # (B, S) bool, True = padding
    cross_bias: Tensor | None  # (B, 1, 1, S)


class DiverseDecoder(TransformerDecoderBase):
    """Transformer decoder that returns the states of its heads on request.

    ``cfg`` is fairseq's nested configuration; ``no_encoder_attn`` leaves out the attention to the
    encoder (language models).
    """

    def __init__(self, cfg, dictionary, embed_tokens, seams: Seams, no_encoder_attn: bool = False):
        self._seams, self._built = seams, 0  # read while fairseq's constructor builds the layers
        self.crossing = not no_encoder_attn
        # If logits are carried, every layer adds the causal mask, so it is made once per batch.
        self._carries = seams.logits.method.carries and "decoder" in seams.logits_on
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn=no_encoder_attn)

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        """Build the next layer; called by fairseq's constructor."""
        self._built += 1
        layer = DiverseDecoderLayer(cfg, self._seams, self._built, no_encoder_attn)
        return wrap_layer(layer, cfg)

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> dict:
        """Complete an old checkpoint's parameters in place, as fairseq does.

        With shared embeddings fairseq adds an output projection, which an adaptive softmax does not
        have.
        """
        projection = f"{name}.output_projection.weight"
        has_projection = projection in state_dict
        super().upgrade_state_dict_named(state_dict, name)
        if self.adaptive_softmax is not None and not has_projection:
            state_dict.pop(projection, None)
        return state_dict

    # Called by position up to the third argument; fairseq's others are not supported.
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list] | None = None,
        incremental_state: dict | None = None,
        features_only: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
        src_lengths=None,
        return_all_hiddens: bool = False,
        return_head_states: Wanted = (),
    ) -> tuple[Tensor, dict]:
        """Decode with teacher forcing, or one step with ``incremental_state``.

        Args:
            prev_output_tokens: (B, T), the target shifted right.
            encoder_out: what the encoder returned, or None in a language model.
            incremental_state: fairseq's decoding state, or None.
            features_only: leave out the projection to the vocabulary.
            alignment_layer: layer, from 0, whose attention to the source is returned (default: the
                last).
            alignment_heads: average only this many heads (default: all).
            src_lengths: ignored.
            return_all_hiddens: ignored; the hidden states are always returned.
            return_head_states: names of ``HeadStates`` to return for every layer of ``decoder`` and
                ``cross``, or by component.

        Returns:
            Logits (B, T, V), or features (B, T, C); and a dict with ``attn`` (the alignment (B, T,
            S), None in training unless ``alignment_layer`` is given), ``inner_states``, and
            ``head_states`` if wanted: lists of ``HeadStates`` under ``decoder`` and ``cross``.
        """
        x, extra = self.extract_features(
            prev_output_tokens,
            encoder_out,
            incremental_state,
            alignment_layer,
            alignment_heads,
            return_head_states,
        )
        return (x if features_only else self.output_layer(x)), extra

    def reorder_incremental_state_scripting(
        self, incremental_state: dict, new_order: Tensor
    ) -> None:
        """Reorder the decoding state; all layers share the plans for this order."""
        plans = {}
        for module in self.modules():
            if isinstance(module, CachedKeys):
                module.reorder_incremental_state(incremental_state, new_order, plans)
            elif (reorder := getattr(module, "reorder_incremental_state", None)) is not None:
                reorder(incremental_state, new_order)

    # As forward.
    def extract_features(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list] | None = None,
        incremental_state: dict | None = None,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
        return_head_states: Wanted = (),
    ) -> tuple[Tensor, dict]:
        """Run ``forward`` without the projection to the vocabulary: return features (B, T, C)."""
        source = None
        if encoder_out is not None and encoder_out["encoder_out"]:
            source = encoder_out["encoder_out"][0].transpose(0, 1)  # (B, S, C)
        # An alignment needs explicit weights, so in training it is computed only on request.
        asked = alignment_layer is not None or not self.training
        aligned = None
        if source is not None and asked:
            aligned = self.num_layers - 1 if alignment_layer is None else alignment_layer
        x, tokens = self._embed(prev_output_tokens, incremental_state)
        masks = self._masks(tokens, encoder_out, incremental_state is not None, logit_dtype(x))

        attn = None
        inner_states = [x.transpose(0, 1)]
        own_records, cross_records = [], []
        logits = cross_logits = values = cross_values = None
        wanted = wanted_of(return_head_states, "decoder")
        asked_cross = wanted_of(return_head_states, "cross") if self.crossing else ()
        for number, layer in enumerate(self.layers):
            wanted_cross = asked_cross
            if number == aligned and "weights" not in wanted_cross:
                wanted_cross = (*wanted_cross, "weights")
            x, logits, cross_logits, values, cross_values, *states = layer(
                x,
                encoder_out=source,
                encoder_padding_mask=masks.cross_padding,
                cross_bias=masks.cross_bias,
                self_bias=masks.self_bias,
                causal=masks.causal,
                self_padding_mask=masks.own_padding,
                incremental_state=incremental_state,
                previous_logits=logits,
                previous_cross_logits=cross_logits,
                first_values=values,
                first_cross_values=cross_values,
                wanted=wanted,
                wanted_cross=wanted_cross,
            )
            inner_states.append(x.transpose(0, 1))
            own_masks = (masks.own_padding, masks.own_padding)
            own = HeadStates._make((*states[:WIDTH], *own_masks))
            cross_masks = (masks.own_padding, masks.cross_padding)
            cross = HeadStates._make((*states[WIDTH:], *cross_masks))
            if number == aligned and cross.weights is not None:
                attn = cross.weights[:, :alignment_heads].mean(dim=1)  # (B, T, S)
            own_records.append(own)
            cross_records.append(cross)

        if self.layer_norm is not None:
            x = self.layer_norm(x)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        extra = {"attn": [attn], "inner_states": inner_states}
        records = {"decoder": (wanted, own_records), "cross": (asked_cross, cross_records)}
        states = {component: layers for component, (asked, layers) in records.items() if asked}
        if states:
            extra["head_states"] = states
        return x, extra

    def _embed(self, tokens: Tensor, incremental_state: dict | None) -> tuple[Tensor, Tensor]:
        """Return the embedded tokens (B, T, C), and the tokens of this step."""
        positions = None
        if self.embed_positions is not None:
            positions = self.embed_positions(tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            tokens = tokens[:, -1:]
            positions = None if positions is None else positions[:, -1:]
        x = self.embed_scale * self.embed_tokens(tokens.contiguous())
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        if positions is not None:
            x = x + positions
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x), tokens

    def _masks(
        self,
        tokens: Tensor,
        encoder_out: dict[str, list] | None,
        decoding: bool,  # True: the decoding state keeps the padding of all steps
        dtype: torch.dtype,
    ) -> _Masks:
        padding = tokens.eq(self.padding_idx)  # (B, T)
        cross_padding = cross_bias = None
        if encoder_out is not None and encoder_out["encoder_padding_mask"]:
            cross_padding = encoder_out["encoder_padding_mask"][0]
        masks = (padding, padding[:, 0], padding if cross_padding is None else cross_padding)
        # One transfer for all masks, because the host waits for a GPU at each transfer.
        padded, padded_left, padded_across = torch.stack([mask.any() for mask in masks]).tolist()
        own_padding = padding if padded else None
        if not padded_across:
            cross_padding = None
        if decoding:
            return _Masks(own_padding, None, False, cross_padding, None)
        self_bias = None
        if padded_left or self._carries:
            self_bias = causal_bias(tokens.size(1), dtype, tokens.device)
            if padded_left:  # the causal mask hides padding on the right only
                self_bias = torch.minimum(self_bias, padding_bias(padding, dtype))
        if cross_padding is not None:
            cross_bias = padding_bias(cross_padding, dtype)
        return _Masks(own_padding, self_bias, self_bias is None, cross_padding, cross_bias)
