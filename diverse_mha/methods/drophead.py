"""Drophead: whole heads zeroed at random in training (Yun et al. 2021)."""

from dataclasses import dataclass, fields

from torch import Tensor, nn

from diverse_mha.attention.registries import DROPHEAD
from diverse_mha.common.errors import Option
from diverse_mha.common.options import Method, Place, option, refuse_idle
from diverse_mha.common.ranges import RATE

MASKS = ("sentence", "batch", "token")
SCALES = ("kept", "none")


@dataclass
class DropheadOptions:
    """The rate of Drophead, an option of every method.

    The paper's rate is 0.1. A higher rate makes heads more similar.
    """

    drophead: float = option(
        0.0,
        "probability that a head's output is zeroed in training (Yun et al. 2021: 0.1)",
        legal=RATE,
    )


@dataclass
class IndependentOptions(DropheadOptions):
    """What shares a draw, and how the remaining heads are scaled.

    The defaults are those of dropout. The other values are other readings of the paper, for
    experiments; one draw for the whole batch was worse by 1.3 BLEU in our study (one seed).
    """

    drophead_mask: str = option(
        "sentence",
        "what shares one draw of heads to drop: each sentence, the whole batch, or each token",
        choices=MASKS,
    )
    drophead_scale: str = option(
        "kept",
        "what is divided by 1 - rate: the kept heads, as in dropout, or none",
        choices=SCALES,
    )


def drop_heads(
    outputs: Tensor, rate: float, *, mask: str = "sentence", scale: str = "kept"
) -> Tensor:
    """Zero heads at random, each with probability ``rate``.

    Choose it against overfitting: no head can rely on another one. Expect heads that are more
    similar, not less.

    Yun et al. 2021, section 4.3: heads are dropped independently, at a constant rate gamma. The
    paper says neither what shares a draw nor whether the kept heads are scaled; the defaults are
    those of dropout. A sentence may lose all heads.

    Args:
        outputs: (B, H, T, D), the output of each head; any floating-point dtype.
        rate: gamma, in [0, 1).
        mask: what shares a draw: ``"sentence"``, ``"batch"`` or ``"token"``.
        scale: ``"kept"`` multiplies the kept heads by 1 / (1 - gamma), which keeps the expected
            value; ``"none"`` leaves them as they are.

    Returns:
        (B, H, T, D). The choice is drawn from the device's default generator.

    Example:
        >>> import torch
        >>> outputs = torch.ones(100, 4, 5, 8)  # (B, H, T, D)
        >>> dropped = drop_heads(outputs, 0.5)
        >>> sorted(dropped.unique().tolist())  # kept heads are scaled by 1 / (1 - 0.5)
        [0.0, 2.0]
    """
    bsz, num_heads, length, _ = outputs.shape
    rows, columns = {"sentence": (bsz, 1), "batch": (1, 1), "token": (bsz, length)}[mask]
    kept = outputs.new_empty(rows, num_heads, columns, 1).bernoulli_(1.0 - rate)
    return outputs * (kept.div_(1.0 - rate) if scale == "kept" else kept)


class DropHeads(nn.Module):
    """:func:`drop_heads` as a module, called in training only.

    Pass it as ``drophead`` to :class:`diverse_mha.attention.MultiheadAttention`.

    Example:
        >>> import torch
        >>> from diverse_mha.attention import MultiheadAttention
        >>> attention = MultiheadAttention(32, 4, batch_first=True, drophead=DropHeads(0.25))
        >>> x, _ = torch.randn(2, 5, 32), attention.eval()
        >>> torch.equal(attention(x, x, x)[0], attention(x, x, x)[0])  # nothing is dropped
        True
    """

    def __init__(self, rate: float, *, mask: str = "sentence", scale: str = "kept"):
        super().__init__()
        RATE.check("rate", rate)
        for name, value, legal in (("mask", mask, MASKS), ("scale", scale, SCALES)):
            if value not in legal:
                raise ValueError(f"{name} is {value!r}; expected one of {legal}")
        self.rate, self.mask, self.scale = rate, mask, scale

    def forward(self, outputs: Tensor) -> Tensor:
        """Drop heads of (B, H, T, D)."""
        return drop_heads(outputs, self.rate, mask=self.mask, scale=self.scale)

    def extra_repr(self) -> str:
        """Describe the module for ``print(model)``."""
        return f"rate={self.rate}, mask={self.mask}, scale={self.scale}"


def _build(options: IndependentOptions, place: Place) -> DropHeads | None:
    if not options.drophead:
        return None
    return DropHeads(options.drophead, mask=options.drophead_mask, scale=options.drophead_scale)


def _check(options: IndependentOptions, place: Place) -> None:
    if not options.drophead:
        own = [f for f in fields(IndependentOptions) if f.name != "drophead"]
        refuse_idle(options, own, "with ", Option("drophead", 0), "; give a rate above 0")


DROPHEAD.register(
    Method(
        "independent",
        "independent (each head by its own draw)",
        _build,
        IndependentOptions,
        _check,
        stock=True,
        head_axes={},
    )
)
