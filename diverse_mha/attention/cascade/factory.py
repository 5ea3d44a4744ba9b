"""From the options of a model to the cascade of one of its attention modules."""

import math

from .modules import Cascade, NetworkCascade, NoCascade, ResidualCascade

CASCADES = ("none", "residual", "mlp")


def build_cascade(
    kind: str,
    num_heads: int,
    *,
    hidden_ratio: int = 4,
    depth: int = 2,
    noise: float = 0.0,
    fused: bool = True,
) -> Cascade | None:
    """Makes the cascade of one attention module, or None where there is nothing to do.

    The rows of Zheng et al. 2021, Table 4: CODA is ``mlp`` with noise 1, CODA-CS ``none`` with
    noise 1, RealFormer ``residual`` without noise, the Transformer ``none`` without noise. The
    first layer has nothing to take up: build it with ``none`` and the noise of the others, and
    it has no parameters that never get a gradient.

    Args:
        kind: one of ``CASCADES``.
        num_heads: H.
        hidden_ratio: width of the hidden layers of the network, in multiples of H.
        depth: number of hidden layers. 2 is the authors' released network; 1 is the two-layer
            perceptron that the paper's text speaks of.
        noise: standard deviation of the noise on the logits, in training only.
        fused: False takes the straight transcription instead of the network that works on
            chunks; same numbers, slower, can be differentiated twice.

    Returns:
        A module ``(logits, previous, masked) -> logits``, or None if ``kind`` is ``none`` and
        ``noise`` is 0.

    Raises:
        ValueError: if an argument is not one of those above; checked for every kind.
    """
    if kind not in CASCADES:
        raise ValueError(f"kind is {kind!r}; expected one of {CASCADES}")
    _check_count("num_heads", num_heads)
    _check_count("hidden_ratio", hidden_ratio)
    _check_count("depth", depth)
    if not (math.isfinite(noise) and noise >= 0.0):
        raise ValueError(f"noise is {noise!r}; expected a finite number >= 0")
    if kind == "mlp":
        return NetworkCascade(
            num_heads, hidden_ratio=hidden_ratio, depth=depth, noise=noise, fused=fused
        )
    if kind == "residual":
        return ResidualCascade(noise=noise)
    return NoCascade(noise=noise) if noise else None


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}; expected a whole number >= 1")
