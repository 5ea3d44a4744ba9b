"""Decoder-only models for language modelling."""

from typing import cast

from fairseq import options
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer_lm import TransformerLanguageModel
from fairseq.modules import AdaptiveInput
from torch import Tensor

from diverse_mha.attention import check_state_names
from diverse_mha.common.errors import Option, UserError
from diverse_mha.models.base import DiverseModel, OutputWeight
from diverse_mha.models.config import (
    LANGUAGE_MODEL_FAMILIES,
    LANGUAGE_MODEL_NAMESAKES,
    LANGUAGE_MODEL_SHAPES,
    LanguageModelConfig,
    register_family,
    to_namespace,
)
from diverse_mha.models.decoder import DiverseDecoder
from diverse_mha.models.parts import Seams
from diverse_mha.models.refused import check_cutoffs, check_model_options

_DEFAULT_LENGTH = 1024


class DiverseLanguageModel(DiverseModel, OutputWeight, TransformerLanguageModel):
    """fairseq's Transformer language model with open attention."""

    config = LanguageModelConfig

    @classmethod
    def build_model(cls, args, task):
        """Check the options and build the model."""
        args = to_namespace(args)
        for side in ("input", "output"):
            if getattr(args, f"decoder_{side}_dim", None) is None:
                setattr(args, f"decoder_{side}_dim", args.decoder_embed_dim)
        if getattr(args, "max_target_positions", None) is None:
            args.max_target_positions = getattr(args, "tokens_per_sample", _DEFAULT_LENGTH)
        check_model_options(args)
        _check_adaptive(args)
        check_cutoffs(args, len(task.target_dictionary))
        seams = Seams.from_options(args, ("decoder",))
        decoder = DiverseDecoder(
            TransformerConfig.from_namespace(args),
            task.target_dictionary,
            cls._embed(args, task.source_dictionary),
            seams,
            no_encoder_attn=True,
        )
        return cls(decoder)

    @classmethod
    def _embed(cls, args, dictionary):
        if not args.adaptive_input:
            return cls.build_embedding(args, dictionary, args.decoder_input_dim)
        return AdaptiveInput(
            len(dictionary),
            dictionary.pad(),
            args.decoder_input_dim,
            args.adaptive_input_factor,
            args.decoder_embed_dim,
            cast("list[int]", options.eval_str_list(args.adaptive_input_cutoff, type=int)),
        )

    def forward(self, src_tokens: Tensor, **kwargs) -> tuple[Tensor, dict]:
        """Score every token given the tokens before it.

        Args:
            src_tokens: (B, T), the text shifted right.
            **kwargs: as for ``DiverseDecoder.forward``; ``return_head_states`` names the
                ``HeadStates`` to return, under ``head_states["decoder"]``.

        Returns:
            Logits (B, T, V), or features with an adaptive softmax; and a dict.
        """
        check_state_names(kwargs.get("return_head_states", ()))
        return super().forward(src_tokens, **kwargs)


def _check_adaptive(args) -> None:
    """Raise :class:`UserError` for contradictory options of the embeddings."""
    adaptive = Option("adaptive_input", True)
    if args.adaptive_input and getattr(args, "adaptive_input_cutoff", None) is None:
        raise UserError(adaptive, " needs ", Option("adaptive_input_cutoff"), "; give both")
    sharing = Option("share_decoder_input_output_embed", True)
    if args.share_decoder_input_output_embed and not getattr(args, "adaptive_softmax_cutoff", None):
        if args.adaptive_input:
            raise UserError(sharing, ": contradicts ", adaptive, "; leave one out")
        _check_equal(args, sharing, "decoder_input_dim", "decoder_output_dim")
    if not args.tie_adaptive_weights:
        return
    tying = Option("tie_adaptive_weights", True)
    if not args.adaptive_input:
        raise UserError(tying, " needs ", adaptive)
    for left, right in (
        ("adaptive_input_cutoff", "adaptive_softmax_cutoff"),
        ("adaptive_input_factor", "adaptive_softmax_factor"),
        ("decoder_input_dim", "decoder_output_dim"),
        ("decoder_output_dim", "decoder_embed_dim"),
    ):
        _check_equal(args, tying, left, right)


def _check_equal(args, option: Option, left: str, right: str) -> None:
    """Raise :class:`UserError` if an option is given with different values of two others."""
    one, other = (Option(name, getattr(args, name, None)) for name in (left, right))
    if one.value != other.value:
        raise UserError(option, " needs ", one, " to equal ", other)


for _family, _defaults in LANGUAGE_MODEL_FAMILIES.items():
    register_family(
        DiverseLanguageModel,
        f"transformer_lm_{_family}",
        LANGUAGE_MODEL_SHAPES,
        _defaults,
        stock="transformer_lm",
        namesakes=LANGUAGE_MODEL_NAMESAKES,
    )
