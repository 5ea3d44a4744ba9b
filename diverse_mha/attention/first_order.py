"""Raises an error for second derivatives of hand-written backward passes."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def first_order_only(backward: Callable[..., Result]) -> Callable[..., Result]:
    """Decorate a ``backward`` so that it raises RuntimeError under ``create_graph=True``.

    torch's ``once_differentiable`` would return constants if no incoming gradient requires a
    gradient, and second derivatives would be silently wrong.
    """

    @functools.wraps(backward)
    def checked(ctx: Any, *grads: Any) -> Result:
        if torch.is_grad_enabled():  # in a backward pass only with create_graph=True
            name = type(ctx).__name__.removesuffix("Backward").lstrip("_")
            raise RuntimeError(
                f"{name}: create_graph=True: second derivatives are not implemented; leave "
                "create_graph out, or detach the inputs"
            )
        return backward(ctx, *grads)

    return checked
