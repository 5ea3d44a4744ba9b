"""For backward passes that are written by hand: refuse to be differentiated again."""

import functools
from collections.abc import Callable

import torch


def first_order_only(backward: Callable) -> Callable:
    """Let the ``backward`` of an ``autograd.Function`` refuse second derivatives.

    torch's ``once_differentiable`` only marks results of gradients that require one themselves:
    of ``loss.backward(create_graph=True)`` it makes constants, and a second derivative silently
    lacks what depends on them. Here RuntimeError is raised under ``create_graph=True``.
    """

    @functools.wraps(backward)
    def checked(ctx, *grads):
        if torch.is_grad_enabled():  # in a backward pass this says create_graph
            name = type(ctx).__name__.removesuffix("Backward").lstrip("_")
            raise RuntimeError(
                f"{name}: create_graph=True: second derivatives are not there; leave create_graph "
                "out, or detach what needs none"
            )
        return backward(ctx, *grads)

    return checked
