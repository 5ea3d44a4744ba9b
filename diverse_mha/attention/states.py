"""What an attention module tells about its heads, on request."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor


class HeadStates(NamedTuple):
    """The tensors of one attention module in one forward pass.

    Only what was asked for is there, the rest is None. Masks come with every
    record. Nothing is detached: a loss built on a record reaches the weights.

    Talking heads mix the weights across heads once more before they meet the values; that mixture
    is not in the record.

    Shapes: B batch, H heads, T queries, S keys, D = model width / H. For
    self-attention T = S.
    """

    queries: Tensor | None = None  # (B, H, T, D), after projection, not scaled
    keys: Tensor | None = None  # (B, H, S, D)
    values: Tensor | None = None  # (B, H, S, D)
    logits: Tensor | None = None  # (B, H, T, S), before the mask: finite everywhere
    weights: Tensor | None = None  # (B, H, T, S), rows sum to 1, before dropout
    outputs: Tensor | None = None  # (B, H, T, D), weights (in training after dropout) @ values
    query_padding_mask: Tensor | None = None  # (B, T) bool, True = padding; None = no padding
    key_padding_mask: Tensor | None = None  # (B, S) bool, True = padding; None = no padding


STATE_NAMES = HeadStates._fields[:6]
COMPONENTS = ("encoder", "cross", "decoder")

Wanted = tuple[str, ...] | Mapping[str, tuple[str, ...]]
"""Names of head states, of every component or by component."""


def check_state_names(names: Wanted) -> Wanted:
    """Return ``names``, a tuple or a mapping.

    Raises:
        ValueError: if a name is not a tensor of ``HeadStates``, or no component.
    """
    if isinstance(names, Mapping):
        for component in names:
            if component not in COMPONENTS:
                raise ValueError(
                    f"head states: unknown component {component!r}; choose from {COMPONENTS}"
                )
        return {component: check_state_names(own) for component, own in names.items()}
    for name in [names] if isinstance(names, str) else names:
        if isinstance(names, str) or name not in STATE_NAMES:
            raise ValueError(f"head states: unknown {name!r}; choose from {STATE_NAMES}")
    return tuple(names)


def wanted_of(names: Wanted, component: str) -> tuple[str, ...]:
    """Return the names for one component."""
    return names.get(component, ()) if isinstance(names, Mapping) else names
