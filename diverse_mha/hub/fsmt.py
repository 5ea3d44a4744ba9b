"""FSMT, to which ``export --format transformers`` exports, through the same attention function.

FSMT's attention has code of its own, so ``hub/adapter.py`` replaces its ``forward`` while heads are
measured. Terms are not supported.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.models.fsmt.modeling_fsmt import Attention

from diverse_mha.hub.attention import NAME, AttentionModule


def eager(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor,
    scaling: float, dropout: float = 0.0, **_: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return outputs (B, T, H, D) and weights (B, H, T, S); ``mask`` is added to the logits."""
    weights = (query @ key.transpose(2, 3) * scaling + mask).softmax(dim=-1)
    return (weights @ value).transpose(1, 2), weights


def forward(
    module: Attention,
    query: Tensor,
    key: Tensor,
    key_padding_mask: Tensor | None = None,
    layer_state: Any = None,
    attn_mask: Tensor | None = None,
    output_attentions: bool = False,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attend as ``Attention.forward`` does, time first, without a cache."""
    read = key if module.encoder_decoder_attention else query

    def split(projected: Tensor) -> Tensor:  # (T, B, C) -> (B, H, T, D)
        return projected.unflatten(-1, (module.num_heads, -1)).permute(1, 2, 0, 3)

    heads = split(module.q_proj(query)), split(module.k_proj(read)), split(module.v_proj(read))
    mask = query.new_zeros(query.size(1), 1, query.size(0), read.size(0))
    if attn_mask is not None:
        mask = mask + attn_mask
    if key_padding_mask is not None and key_padding_mask.dim():
        lowest = torch.finfo(query.dtype).min
        mask = mask.masked_fill(key_padding_mask[:, None, None].bool(), lowest)
    attend = AttentionInterface()[NAME]
    output, _ = attend(module, *heads, mask, scaling=module.scaling)
    return module.out_proj(output.flatten(2).transpose(0, 1)), None


def attention_modules(model: nn.Module) -> Iterator[AttentionModule]:
    """Yield FSMT's attention modules."""
    for name, module in model.named_modules():
        if isinstance(module, Attention):
            side = "encoder" if ".encoder." in f".{name}" else "decoder"
            component = "cross" if module.encoder_decoder_attention else side
            yield AttentionModule(name, module, component, eager)
