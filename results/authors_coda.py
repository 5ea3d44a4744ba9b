"""Compares our CODA with the code that its authors released, in float64.

    git clone https://github.com/LZhengisme/CODA runs/coda-authors
    python -m results.authors_coda runs/coda-authors/fairseq/models/coda_transformer.py

Three layers of attention get the same parameters and the same input with padding, in evaluation
mode. The command prints the largest differences of outputs and gradients, each beside the largest
value. Only the class ``BaseMultiHeadAttention`` of the file is used; read it before you run it.
"""

import argparse
import types
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from diverse_mha.attention import MultiheadAttention
from diverse_mha.methods.coda import build_cascade

WIDTH, HEADS, LAYERS, LENGTHS = 64, 4, 3, (9, 7, 5)
CLASS = "@with_incremental_state\nclass BaseMultiHeadAttention"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the differences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="coda_transformer.py of the authors' release")
    given = parser.parse_args(arguments)
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    attention = released(given.file.read_text(encoding="utf-8"))
    theirs = [attention(WIDTH, HEADS, self_attention=True, model="coda") for _ in range(LAYERS)]
    ours = [_copy(layer.eval(), number).eval() for number, layer in enumerate(theirs)]
    for name, (difference, largest) in compare(theirs, ours).items():
        print(f"{name:22} {difference:.1e} of {largest:.2g}")


def released(text: str) -> type[nn.Module]:
    """Return the attention of the authors' file, with its softmax in float64."""
    import math
    from typing import Optional

    from fairseq.incremental_decoding_utils import with_incremental_state
    from fairseq.modules import FairseqDropout
    from fairseq.modules.quant_noise import quant_noise

    start = text.index(CLASS)
    utils = types.SimpleNamespace(softmax=lambda x, dim, onnx_trace=False: x.softmax(dim))
    names = {
        "math": math, "torch": torch, "nn": nn, "Tensor": Tensor, "Parameter": nn.Parameter,
        "Dict": dict, "Optional": Optional, "Tuple": tuple, "FairseqDropout": FairseqDropout,
        "with_incremental_state": with_incremental_state, "apply_quant_noise_": quant_noise,
        "utils": utils,
    }  # fmt: skip
    exec(text[start : text.index("\n@register_model_architecture", start)], names)
    return names["BaseMultiHeadAttention"]


def _copy(layer: nn.Module, number: int) -> MultiheadAttention:
    """Return our attention with the parameters of a layer of the authors."""
    cascade = build_cascade("mlp" if number else "none", HEADS, noise=1.0)
    own = MultiheadAttention(
        WIDTH, HEADS, batch_first=True, logit_map=cascade, carry_logits=number < LAYERS - 1
    )
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    with torch.no_grad():
        own.in_proj_weight.copy_(torch.cat([one.weight for one in projections]))
        own.in_proj_bias.copy_(torch.cat([one.bias for one in projections]))
        own.out_proj.load_state_dict(layer.out_proj.state_dict())
        for mine, given in zip(_network(own), layer.head_ffn.parameters(), strict=False):
            mine.copy_(given.view(mine.shape))
    return own


def _network(layer: MultiheadAttention) -> list[Tensor]:
    """Return the parameters of a layer's network; the first layer has none."""
    network = getattr(layer.cascade, "network", None)
    return [] if network is None else list(network.flat_parameters())


def compare(theirs: list, ours: list) -> dict[str, tuple[float, float]]:
    """Return what is compared -> largest difference, largest value."""
    longest = max(LENGTHS)
    padding = torch.arange(longest) >= torch.tensor(LENGTHS)[:, None]  # (B, T)
    x = torch.randn(len(LENGTHS), longest, WIDTH)
    target = torch.randn_like(x) * ~padding[..., None]
    first, second = x.clone().requires_grad_(), x.clone().requires_grad_()
    one, logits = first.transpose(0, 1), None
    for layer in theirs:
        one, found = layer(one, one, one, key_padding_mask=padding, prev_attn_logits=logits)
        logits = found["attn_logits"]
    one = one.transpose(0, 1)
    other, logits = second, None
    for layer in ours:
        other, _, logits = layer.attend(
            other, other, other, key_padding_mask=padding, previous_logits=logits
        )
    for output in (one, other):
        (output * target).sum().backward()
    real = ~padding
    pairs = {
        "output": [(one[real], other[real])],
        "gradient of the input": [(first.grad[real], second.grad[real])],
        "gradient of a network": [
            (given.grad.view(mine.shape), mine.grad)
            for a, b in zip(theirs, ours, strict=True)
            for given, mine in zip(a.head_ffn.parameters(), _network(b), strict=False)
        ],
    }
    return {
        name: (
            max(float((a - b).detach().abs().max()) for a, b in both),
            max(float(a.detach().abs().max()) for a, _ in both),
        )
        for name, both in pairs.items()
    }


if __name__ == "__main__":
    main()
