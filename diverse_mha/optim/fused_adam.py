"""``--optimizer fused_adam``: fairseq's Adam, computed by torch's fused kernel."""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, adam, register_optimizer
from omegaconf import II
from torch.optim.adamw import adamw


class FusedAdam(adam.Adam):
    """fairseq's ``Adam`` with torch's fused kernel: same state, same results up to rounding.

    Parameters are float32 or float64; with ``--bf16`` and ``--fp16`` fairseq passes float32 copies.
    """

    @property  # fairseq's returns True and nothing else
    def supports_memory_efficient_fp16(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
    ) -> bool:
        """False: the kernel would keep moving averages in half precision.

        fairseq's Adam keeps them in float32.
        """
        return False

    @torch.no_grad()
    def step(self, closure=None):
        """Update all parameters that have a gradient; return the closure's loss, if any."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            by_step = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = self.state[parameter]
                    if not state:
                        state["step"] = 0
                        state["exp_avg"] = torch.zeros_like(parameter)
                        state["exp_avg_sq"] = torch.zeros_like(parameter)
                    state["step"] += 1
                    by_step[state["step"], parameter.device, parameter.dtype].append(parameter)
            beta1, beta2 = group["betas"]
            for (step, device, _), parameters in by_step.items():
                states = [self.state[parameter] for parameter in parameters]
                adamw(
                    parameters,
                    [parameter.grad for parameter in parameters],
                    [state["exp_avg"] for state in states],
                    [state["exp_avg_sq"] for state in states],
                    [],
                    list(torch.full((len(states),), step - 1.0, device=device).unbind()),
                    fused=True,
                    amsgrad=False,
                    beta1=beta1,
                    beta2=beta2,
                    lr=group["lr"],
                    weight_decay=group["weight_decay"],
                    # torch adds epsilon after the bias correction, fairseq before it.
                    eps=group["eps"] / math.sqrt(1 - beta2**step),
                    maximize=False,
                )
        return loss


@dataclass
class FusedAdamConfig(FairseqDataclass):
    """Options of ``fused_adam``, with the names and defaults of fairseq's Adam."""

    adam_betas: Any = field(default=(0.9, 0.999), metadata={"help": "betas of Adam"})
    adam_eps: float = field(default=1e-8, metadata={"help": "epsilon of Adam"})
    weight_decay: float = field(default=0.0, metadata={"help": "decoupled weight decay"})
    lr: list[float] = II("optimization.lr")


class FairseqAdam(adam.FairseqAdam):
    """The optimiser ``fused_adam``.

    It has the class name of fairseq's Adam, because a checkpoint stores that name with the state.
    """

    takes_all_at_once = True  # read by fairseq_fixes/speed.py

    def __init__(self, cfg: FusedAdamConfig, params):
        FairseqOptimizer.__init__(self, cfg)
        self._optimizer = FusedAdam(params, **self.optimizer_config)

    def clip_grad_norm(self, max_norm, aggregate_norm_fn=None):
        """Return the norm of all gradients, and scale them down to ``max_norm`` if that is > 0."""
        grads = [p.grad for p in self.params if p.grad is not None]
        if len(grads) < 2 or any(hasattr(p, "expert") for p in self.params):
            return super().clip_grad_norm(max_norm, aggregate_norm_fn)
        norm = torch.nn.utils.get_total_norm(grads)
        if aggregate_norm_fn is not None:
            norm = aggregate_norm_fn(norm)
        if max_norm > 0:
            share = (max_norm / (norm + 1e-6)).clamp_(max=1)
            # torch has no public name for it.
            torch._foreach_mul_(grads, share)  # pyright: ignore[reportPrivateImportUsage]
        return norm


register_optimizer("fused_adam", dataclass=FusedAdamConfig)(FairseqAdam)
