"""No figure without this: the variants compute what they should."""

from argparse import Namespace
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch

from benchmarks.shapes import Shape
from benchmarks.training import Trainee, copy_shared
from benchmarks.variants import STOCK, variants_of

# Relative difference allowed in float32, where another order of summing gives about 1e-6.
TOLERANCE = 1e-4


class CheckError(Exception):
    """A variant computes something else than it should, so its speed means nothing."""


@dataclass(frozen=True)
class Evidence:
    """What one step without dropout gave, in float32 and from stock's parameters."""

    loss: float  # summed over the batch, terms included
    token_loss: float  # summed over the batch, without smoothing or terms
    grad_norm: float  # of the mean loss
    stock_parameters: bool  # every parameter has stock's name and shape
    has_terms: bool  # the loss holds more than the token loss


def gather(
    names: Iterable[str],
    shape: Shape,
    task: Namespace,
    batch: dict,
    device: torch.device,
    seed: int,
) -> dict[str, Evidence]:
    """Run every variant for one step, without dropout or Drophead, from the same parameters.

    Stock comes first; the batch is on the device; ``seed`` is that of the parameters.
    """
    evidence, stock = {}, None
    for name in names:
        variant = variants_of(shape)[name]
        certain = {key: value for key, value in variant.model.items() if key != "drophead"}
        variant = replace(variant, model=certain)
        options = replace(shape, dropout=0.0).options()
        trainee = Trainee(variant, options, task, device=device, precision="fp32", seed=seed)
        if stock is None:
            stock = {key: value.clone() for key, value in trainee.model.state_dict().items()}
        like_stock = copy_shared(stock, trainee.model)
        numbers = map(float, trainee.step(batch))  # loss, token loss and gradient norm
        evidence[name] = Evidence(*numbers, like_stock, variant.has_terms)
    return evidence


def judge(evidence: dict[str, Evidence]) -> list[str]:
    """Find what is wrong, a sentence each; an empty list lets the figures through.

    Losses and gradients must be finite. A variant with stock's parameters must have
    stock's token loss, and without terms its whole loss and its gradient norm too.
    """
    stock, faults = evidence[STOCK], []
    for name, found in evidence.items():
        wanted = {"loss": found.loss, "gradient norm": found.grad_norm}
        faults += [
            f"{name}: the {what} is {value}"
            for what, value in wanted.items()
            if not abs(value) < float("inf")
        ]
        pairs = []
        if found.stock_parameters:
            pairs.append(("token loss", found.token_loss, stock.token_loss))
        if found.stock_parameters and not found.has_terms:
            pairs.append(("loss", found.loss, stock.loss))
            pairs.append(("gradient norm", found.grad_norm, stock.grad_norm))
        faults += [
            f"{name}: the {what} is {own}, stock's with the same parameters is {other}"
            for what, own, other in pairs
            if abs(own - other) > TOLERANCE * abs(other)
        ]
    return faults
