"""Trains one variant step by step: its model, its criterion, and fairseq's optimiser."""

import math
from argparse import Namespace
from typing import NamedTuple

import torch
from fairseq import optim
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.optim.fp16_optimizer import FP16Optimizer
from omegaconf import OmegaConf
from torch import Tensor

import diverse_mha
from benchmarks.batches import stand_in_task, to_device
from benchmarks.shapes import Shape
from benchmarks.variants import Variant, variants_of

diverse_mha.register()  # registers models and criterions with fairseq

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
LABEL_SMOOTHING = 0.1


class Outcome(NamedTuple):
    """Result of a training step. Read it after the timing: reading waits for the GPU."""

    loss: Tensor  # loss in nats, summed over the batch, terms included
    grad_norm: Tensor | None  # norm of the mean loss's gradient; None: fp16 overflow, no update

    def finite(self) -> bool:
        """Return True if the loss, and the gradient norm after an update, are finite."""
        norm = 0.0 if self.grad_norm is None else float(self.grad_norm)
        return math.isfinite(float(self.loss)) and math.isfinite(norm)


class Trainee:
    """A variant that can be trained step by step, as fairseq's trainer does it.

    ``precision`` is a key of ``DTYPES``; fp16 and bf16 work as in fairseq, with float32 master
    weights. ``options`` are the model's dimensions, ``optimizer`` is ``adam`` or ``fused_adam``.
    """

    def __init__(
        self,
        variant: Variant,
        options: dict,
        task: Namespace,
        *,
        device: torch.device,
        precision: str,
        seed: int,
        optimizer: str = "adam",
    ):
        torch.manual_seed(seed)
        self.model = build_model(variant, options, task).to(device, DTYPES[precision])
        self.model.train()
        self.criterion = _build_criterion(variant, task)
        self.optimizer = _build_optimizer(list(self.model.parameters()), precision, optimizer)

    def step(self, batch: dict) -> Outcome:
        """Run forward, backward and update on one batch, which is on the model's device."""
        self.optimizer.zero_grad()
        loss, sample_size, _ = self.criterion(self.model, batch)
        self.optimizer.backward(loss)
        self.optimizer.multiply_grads(1.0 / sample_size)
        try:
            grad_norm = self.optimizer.clip_grad_norm(0.0)  # 0: only measures the norm
        except OverflowError:  # fp16: the loss scale was too large and has been reduced
            return Outcome(loss.detach(), None)
        self.optimizer.step()
        return Outcome(loss.detach(), grad_norm)

    def parameters(self) -> int:
        """Number of parameters, shared ones counted once."""
        return sum(p.numel() for p in self.model.parameters())


def train_twice(name: str, shape: Shape, batch: dict, settings: dict) -> None:
    """Train a variant for two steps on one batch, to measure peak memory.

    The first step creates the optimiser's state, so only the second has it throughout.
    """
    task, batch = stand_in_task(shape.vocabulary), to_device(batch, settings["device"])
    trainee = Trainee(variants_of(shape)[name], shape.options(), task, **settings)
    for _ in range(2):
        trainee.step(batch)


def build_model(variant: Variant, options: dict, task: Namespace) -> torch.nn.Module:
    """Build the model of a variant, ours or fairseq's."""
    # fairseq's transformer has no dataclass.
    config = MODEL_DATACLASS_REGISTRY.get(variant.arch) or Namespace
    cfg = config(**{**options, **variant.model})
    return MODEL_REGISTRY[variant.arch].build_model(cfg, task)


def _build_criterion(variant: Variant, task: Namespace) -> torch.nn.Module:
    options = {"sentence_avg": False, **variant.terms}
    if variant.criterion.startswith("label_smoothed"):
        options["label_smoothing"] = LABEL_SMOOTHING
    if variant.criterion.startswith("adaptive"):
        options["ddp_backend"] = "legacy_ddp"  # the adaptive loss refuses fairseq's default
    cfg = CRITERION_DATACLASS_REGISTRY[variant.criterion](**options)
    return CRITERION_REGISTRY[variant.criterion].build_criterion(cfg, task)


def _build_optimizer(parameters: list, precision: str, name: str):
    cfg = OmegaConf.structured(FairseqConfig)
    adam = optim.OPTIMIZER_DATACLASS_REGISTRY[name]
    cfg.optimizer = adam(adam_betas="(0.9, 0.98)", adam_eps=1e-9, lr=[1e-4])
    cfg.optimizer._name = name
    cfg.common.fp16, cfg.common.bf16 = precision == "fp16", precision == "bf16"
    # On a CPU fairseq's fp16 does not support flattened gradients; bf16 never has them.
    cfg.common.fp16_no_flatten_grads = parameters[0].device.type == "cpu"
    cfg.optimization.update_freq = [1]
    cfg.distributed_training.distributed_world_size = 1
    if precision == "fp32":
        return optim.build_optimizer(cfg.optimizer, parameters)
    return FP16Optimizer.build_optimizer(cfg, parameters)
