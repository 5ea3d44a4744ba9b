"""Argument checks that the routing algorithms share."""

from torch import Tensor


def check_votes(votes: Tensor) -> None:
    """Refuses votes of the wrong shape or dtype.

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
