"""Encoder-decoder models for translation."""

import re

from fairseq.models.transformer import TransformerModel
from torch import Tensor

from diverse_mha.attention import Wanted, check_state_names, wanted_of
from diverse_mha.models.base import DiverseModel, OutputWeight
from diverse_mha.models.config import (
    FAMILIES,
    TRANSLATION_NAMESAKES,
    TRANSLATION_SHAPES,
    DiverseConfig,
    register_family,
    to_namespace,
)
from diverse_mha.models.decoder import DiverseDecoder
from diverse_mha.models.encoder import DiverseEncoder
from diverse_mha.models.parts import SIDES, Seams
from diverse_mha.models.refused import check_cutoffs, check_embeddings, check_model_options

# Copies of layer parameters that stock fairseq 0.12.2 saves for its fused path.
_FUSED_COPY = re.compile(r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)$")


class DiverseTransformer(DiverseModel, OutputWeight, TransformerModel):
    """fairseq's Transformer with open attention and head states on request."""

    config = DiverseConfig

    @classmethod
    def build_model(cls, args, task):
        """Check the options and build the model."""
        args = to_namespace(args)
        check_model_options(args)
        check_embeddings(args, task.source_dictionary == task.target_dictionary)
        check_cutoffs(args, len(task.target_dictionary))
        crossing = not args.no_cross_attention
        components = tuple(c for c in SIDES if crossing or c != "cross")
        args.seams = Seams.from_options(args, components)  # for build_encoder and build_decoder
        return super().build_model(args, task)

    @classmethod
    def build_encoder(cls, args, src_dict, embed_tokens):
        """Build the encoder; called by fairseq."""
        return DiverseEncoder(args, src_dict, embed_tokens, args.seams)

    @classmethod
    def build_decoder(cls, args, tgt_dict, embed_tokens):
        """Build the decoder; called by fairseq."""
        return DiverseDecoder(args, tgt_dict, embed_tokens, args.seams, args.no_cross_attention)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        return_all_hiddens: bool = True,
        features_only: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
        return_head_states: Wanted = (),
    ) -> tuple[Tensor, dict]:
        """Score a target given a source, with teacher forcing.

        ``src_tokens`` are (B, S) token numbers, ``src_lengths`` (B,), ``prev_output_tokens`` the
        target shifted right, (B, T). ``return_all_hiddens`` keeps the output of every encoder
        layer. ``return_head_states`` names the ``HeadStates`` to return for every layer, or by
        component. The other arguments are those of ``DiverseDecoder.forward``.

        Returns:
            Logits (B, T, V) and a dict, if wanted with ``head_states``: ``{"encoder": [HeadStates,
            ...], "cross": ..., "decoder": ...}``.
        """
        names = check_state_names(return_head_states)
        encoder_out = self.encoder(
            src_tokens,
            src_lengths=src_lengths,
            return_all_hiddens=return_all_hiddens,
            return_head_states=wanted_of(names, "encoder"),
        )
        x, extra = self.decoder(
            prev_output_tokens,
            encoder_out=encoder_out,
            features_only=features_only,
            alignment_layer=alignment_layer,
            alignment_heads=alignment_heads,
            src_lengths=src_lengths,
            return_all_hiddens=return_all_hiddens,
            return_head_states=names,
        )
        if "head_states" in encoder_out:
            extra.setdefault("head_states", {})["encoder"] = encoder_out["head_states"]
        return x, extra

    def set_beam_size(self, beam_size: int) -> None:
        """Set how many beams share a source sentence; called by fairseq's generator."""
        for layer in self.decoder.layers:
            if layer.encoder_attn is not None:
                layer.encoder_attn.set_beam_size(beam_size)

    def upgrade_state_dict_named(self, state_dict, name):
        """Drop the copies that stock fairseq 0.12.2 saves; called when a checkpoint is loaded."""
        super().upgrade_state_dict_named(state_dict, name)
        own = self.state_dict().keys()
        for key in [k for k in state_dict if _FUSED_COPY.search(k) and k not in own]:
            del state_dict[key]


for _family, _defaults in FAMILIES.items():
    register_family(
        DiverseTransformer,
        f"transformer_{_family}",
        TRANSLATION_SHAPES,
        _defaults,
        stock="transformer",
        namesakes=TRANSLATION_NAMESAKES,
    )
