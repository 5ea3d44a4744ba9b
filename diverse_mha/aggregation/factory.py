"""The aggregations by name."""

import inspect

from .routing import ROUTINGS, RoutingAggregation

AGGREGATIONS = ("linear", *ROUTINGS)
"""Legal values of ``--aggregation``."""


def build_aggregation(
    kind: str, embed_dim: int, num_heads: int, **options
) -> RoutingAggregation | None:
    """Builds what turns the outputs of the heads into one vector.

    Args:
        kind: ``"linear"``, ``"simple-routing"`` or ``"em-routing"``.
        embed_dim: C, the size of the concatenated head outputs and of the result.
        num_heads: H.
        **options: keyword arguments of :class:`RoutingAggregation`; of no effect with
            ``"linear"``, so that a model can hand on its options whatever the kind.

    Returns:
        None for ``"linear"``: the attention keeps its own output projection, under fairseq's
        name, so that checkpoints fit. Otherwise a module from (..., C) to (..., C) that takes
        the place of the output projection; the attention then must not have one.

    Raises:
        ValueError: if the kind or an option's value is not legal.
        TypeError: if there is no such option, also for ``"linear"``.
    """
    if kind not in AGGREGATIONS:
        raise ValueError(f"kind is {kind!r}; expected one of {AGGREGATIONS}")
    if kind == "linear":
        # A misspelt option is an error here too.
        inspect.signature(RoutingAggregation).bind(embed_dim, num_heads, **options)
        return None
    return RoutingAggregation(embed_dim, num_heads, kind=kind, **options)
