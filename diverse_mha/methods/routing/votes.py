"""Argument check of the routing algorithms."""

from torch import Tensor


def check_votes(votes: Tensor) -> None:
    """Raise ValueError unless votes are (K, H, N, D), H, N, D >= 1, of a floating-point dtype."""
    if votes.dim() != 4 or 0 in votes.shape[1:]:
        raise ValueError(
            f"votes has shape {tuple(votes.shape)}; expected (K, H, N, D), tokens, heads, "
            "capsules and dimensions, the last three at least 1"
        )
    if not votes.is_floating_point():
        raise ValueError(f"votes has dtype {votes.dtype}; expected a floating-point dtype")
