"""The share of each part of the loss in a batch's gradient."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from diverse_mha.common.errors import OptionError
from diverse_mha.common.options import ANY_COUNT, option


@dataclass
class GradientShareOptions:
    """How often shares are measured."""

    log_gradient_share: int = option(
        0,
        "log each term's share of the gradient every N updates (one process only; one more "
        "backward pass for each term); 0: never",
        legal=ANY_COUNT,
    )


def gradient_shares(losses: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Divide the norm of each loss's gradient by the sum of these norms.

    Gradients are those of all trained parameters in one batch of the process, before clipping,
    scaling or averaging. Each loss costs a backward pass; ``.grad`` does not change, and the graph
    stays.

    Args:
        losses: scalars under any names; numbers that depend on no parameter have no share.
        model: the model whose parameters count.

    Returns:
        By name a scalar in [0, 1], float32, without gradient; they add up to 1, or are all 0 if no
        loss has a gradient.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    norms = {name: gradient_norm(loss, parameters) for name, loss in losses.items()}
    total = sum(norms.values())
    return {
        name: norm / total.clamp_min(torch.finfo(total.dtype).tiny) for name, norm in norms.items()
    }


def gradient_norm(loss: Tensor | float, parameters: list[Tensor]) -> Tensor:
    """Return the norm of a loss's gradient, in float32; the graph stays."""
    zero = parameters[0].new_zeros((), dtype=torch.float32)
    if not (isinstance(loss, Tensor) and loss.requires_grad):
        return zero
    grads = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    norms = [torch.linalg.vector_norm(g, dtype=torch.float32) for g in grads if g is not None]
    return torch.linalg.vector_norm(torch.stack([zero, *norms]))


def check_measurable(option: str, model: nn.Module) -> None:
    """Refuse models whose gradients cannot be separated, and several processes."""
    device = next(model.parameters()).device.type
    obstacles = {
        "--checkpoint-activations": any(
            hasattr(module, "precheckpoint_forward") for module in model.modules()
        ),
        "--fp16": any(p.dtype == torch.float16 for p in model.parameters()),
        # Gradients without a scale would be 0.
        "--amp in float16": torch.is_autocast_enabled(device)
        and torch.get_autocast_dtype(device) == torch.float16,
        # Hooks would exchange these gradients.
        "several processes": torch.distributed.is_initialized()
        and torch.distributed.get_world_size() > 1,
    }
    for obstacle, there in obstacles.items():
        if there:
            raise OptionError(f"{option}: not together with {obstacle}; leave one out")
