"""The encoder stack: fairseq's construction, our forward pass."""

from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.attention.core import logit_dtype, padding_bias
from diverse_mha.models.layers import DiverseEncoderLayer, wrap_layer
from diverse_mha.models.parts import Seams


class DiverseEncoder(TransformerEncoderBase):
    """Transformer encoder that returns the states of its heads on request.

    ``cfg`` is fairseq's nested configuration.
    """

    def __init__(self, cfg, dictionary, embed_tokens, seams: Seams):
        self._seams, self._built = seams, 0  # read while fairseq's constructor builds the layers
        super().__init__(cfg, dictionary, embed_tokens)

    def build_encoder_layer(self, cfg):
        """Build the next layer; called by fairseq's constructor."""
        self._built += 1
        return wrap_layer(DiverseEncoderLayer(cfg, self._seams, self._built), cfg)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        return_head_states: tuple[str, ...] = (),
    ) -> dict[str, list]:
        """Encode a batch.

        Args:
            src_tokens: (B, S) token numbers.
            src_lengths: ignored; tokens show the padding.
            return_all_hiddens: also return every layer's output.
            token_embeddings: (B, S, C), used instead of the embedding table.
            return_head_states: names of ``HeadStates`` to return for every layer.

        Returns:
            fairseq's encoder output (time-first tensors in lists). If states are wanted,
            ``head_states`` is a list of ``HeadStates``, one for every layer that ran.
        """
        padding_mask = src_tokens.eq(self.padding_idx)  # (B, S)
        x, embedding = self.forward_embedding(src_tokens, token_embeddings)
        bias = record_mask = None
        if padding_mask.any():
            x = x.masked_fill(padding_mask[:, :, None], 0.0)
            bias = padding_bias(padding_mask, logit_dtype(x))
            record_mask = padding_mask
        hiddens = [x.transpose(0, 1)] if return_all_hiddens else []
        records, logits, values = [], None, None
        for layer in self.layers:
            x, logits, values, *states = layer(
                x,
                bias=bias,
                previous_logits=logits,
                first_values=values,
                wanted=return_head_states,
            )
            if return_all_hiddens:
                hiddens.append(x.transpose(0, 1))
            if return_head_states:
                records.append(HeadStates._make((*states, record_mask, record_mask)))
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        encoded = {
            "encoder_out": [x.transpose(0, 1)],  # (S, B, C)
            "encoder_padding_mask": [padding_mask],  # (B, S)
            "encoder_embedding": [embedding],  # (B, S, C)
            "encoder_states": hiddens,  # (S, B, C) each
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [(~padding_mask).sum(dim=1, keepdim=True).int()],  # (B, 1)
        }
        if return_head_states:
            encoded["head_states"] = records
        return encoded
