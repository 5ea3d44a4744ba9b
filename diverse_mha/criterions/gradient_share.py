"""Which share of a batch's gradient each part of the loss has."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from diverse_mha.common.errors import OptionError
from diverse_mha.common.options import ANY_COUNT, option


@dataclass
class GradientShareOptions:
    """How often to measure."""

    log_gradient_share: int = option(
        0,
        "log each term's share of the gradient every N updates (one process only; needs one "
        "backward pass more a term); 0: never",
        legal=ANY_COUNT,
    )


def gradient_shares(losses: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Divide the norm of each loss's gradient by the sum of these norms.

    The gradients are those with respect to all trained parameters of the model, of one batch of
    the process, before anything is clipped, scaled or averaged. The norm of a sum is at most the
    sum of the norms: shares say how hard each part pulls, not how far they agree. Each loss costs
    a backward pass; nothing is added to ``.grad``, and the graph stays.

    Args:
        losses: scalars under any names; numbers that depend on no parameter have no share.
        model: whose parameters count.

    Returns:
        Under each name a scalar in [0, 1], float32, without gradient; they add up to 1, or are
        all 0 if no loss has a gradient.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    norms = {name: gradient_norm(loss, parameters) for name, loss in losses.items()}
    total = sum(norms.values())
    return {
        name: norm / total.clamp_min(torch.finfo(total.dtype).tiny) for name, norm in norms.items()
    }


def gradient_norm(loss: Tensor | float, parameters: list[Tensor]) -> Tensor:
    """Norm of a loss's gradient with respect to parameters, in float32; the graph stays."""
    zero = parameters[0].new_zeros((), dtype=torch.float32)
    if not (isinstance(loss, Tensor) and loss.requires_grad):
        return zero
    grads = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    norms = [torch.linalg.vector_norm(g, dtype=torch.float32) for g in grads if g is not None]
    return torch.linalg.vector_norm(torch.stack([zero, *norms]))


def check_measurable(option: str, model: nn.Module) -> None:
    """Refuse models whose gradients cannot be taken apart, and several processes."""
    device = next(model.parameters()).device.type
    obstacles = {
        "--checkpoint-activations": any(
            hasattr(module, "precheckpoint_forward") for module in model.modules()
        ),
        "--fp16": any(p.dtype == torch.float16 for p in model.parameters()),
        # Gradients that no scale protects come out as 0 there.
        "--amp in float16": torch.is_autocast_enabled(device)
        and torch.get_autocast_dtype(device) == torch.float16,
        # Hooks that exchange gradients would take these for the gradients of the step.
        "several processes": torch.distributed.is_initialized()
        and torch.distributed.get_world_size() > 1,
    }
    for obstacle, there in obstacles.items():
        if there:
            raise OptionError(f"{option}: not together with {obstacle}; leave one out")
