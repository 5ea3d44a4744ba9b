"""A model's output projection, for losses that apply it themselves."""

import torch
from fairseq.modules.adaptive_softmax import AdaptiveSoftmax, TiedHeadModule, TiedLinear
from torch import Tensor, nn


class OutputWeight:
    """A base of models whose output projection a loss may apply."""

    def output_weight(self) -> Tensor | None:
        """Return the output projection's weight (V, C), or None if it is not a plain one.

        Of an adaptive softmax it is the weight of the frequent words and, below them, of the bands.
        """
        softmax = self.decoder.adaptive_softmax
        if softmax is not None:
            return _head_weight(softmax)
        return _plain_weight(self.decoder.output_projection)


def _head_weight(softmax: AdaptiveSoftmax) -> Tensor | None:
    head, tails = softmax.head, [tail[-1] for tail in softmax.tail]
    parts = [head.word_proj, head.class_proj] if isinstance(head, TiedHeadModule) else [head]
    weights = [_plain_weight(part) for part in parts]
    if any(w is None for w in [*weights, *map(_plain_weight, tails)]):
        return None
    if any(map(_hooked, softmax.modules())):
        return None
    return torch.cat(weights) if len(weights) > 1 else weights[0]


def _plain_weight(linear: nn.Module) -> Tensor | None:
    """Return the weight of a linear map without bias; None if a call does more than that."""
    tied = type(linear) is TiedLinear and not linear.transpose
    if not tied and (type(linear) is not nn.Linear or linear.bias is not None):
        return None
    # Pruning and weight norm compute the weight in a call.
    if _hooked(linear) or "weight" not in linear._parameters:
        return None
    return linear.weight


def _hooked(module: nn.Module) -> bool:
    hooks = ("forward", "forward_pre", "backward", "backward_pre")
    return any(getattr(module, f"_{kind}_hooks") for kind in hooks)
