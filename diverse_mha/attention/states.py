"""The record of an attention module's heads, made on request."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor


class HeadStates(NamedTuple):
    """Tensors of one attention module in one forward pass; those not wanted are None.

    Nothing is detached, so a loss built on a record reaches the parameters. With B batch, H heads,
    T queries, S keys, D = model width / H; T = S in self-attention.
    """

    queries: Tensor | None = None  # (B, H, T, D), after projection, not scaled
    keys: Tensor | None = None  # (B, H, S, D)
    values: Tensor | None = None  # (B, H, S, D)
    logits: Tensor | None = None  # (B, H, T, S), before the mask: finite everywhere
    weights: Tensor | None = None  # (B, H, T, S), rows sum to 1, before dropout and talking heads
    outputs: Tensor | None = None  # (B, H, T, D), weights (in training after dropout) @ values
    query_padding_mask: Tensor | None = None  # (B, T) bool, True = padding; None = no padding
    key_padding_mask: Tensor | None = None  # (B, S) bool, True = padding; None = no padding


STATE_NAMES = HeadStates._fields[:6]
COMPONENTS = ("encoder", "cross", "decoder")

Wanted = tuple[str, ...] | Mapping[str, tuple[str, ...]]
"""Names of head states, of every component or by component."""


def check_state_names(names: Wanted) -> Wanted:
    """Return the names as a tuple or mapping.

    Raises:
        ValueError: for an unknown head state or component.
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
