"""Argument checks that the routing algorithms share."""

import torch
from torch import Tensor


def check_votes(votes: Tensor) -> None:
    """Refuses votes of the wrong shape or dtype.

    Args:
        votes: the argument.

    Raises:
        ValueError: if it is not (K, H, N, D) with H, N, D >= 1 and a floating-point dtype.
    """
    if votes.dim() != 4 or 0 in votes.shape[1:]:
        raise ValueError(
            f"votes has shape {tuple(votes.shape)}; expected (K, H, N, D), tokens, heads, "
            "capsules and dimensions, the last three at least 1"
        )
    if not votes.is_floating_point():
        raise ValueError(f"votes has dtype {votes.dtype}; expected a floating-point dtype")


def check_iterations(iterations: int) -> None:
    """Refuses anything but a whole number from 1.

    Args:
        iterations: the argument.

    Raises:
        ValueError: if it is smaller than 1 or no integer.
    """
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise ValueError(f"iterations is {iterations!r}; expected an integer of at least 1")


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """float64 for float64, otherwise float32: the dtype that routing computes in."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
