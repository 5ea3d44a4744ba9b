"""The loss terms in a ``Trainer`` of transformers."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from diverse_mha.common.errors import UserError
from diverse_mha.hub.states import Batch
from diverse_mha.methods.diversity import logged_values

if TYPE_CHECKING:
    from transformers import Trainer
else:
    Trainer = object  # the class after the mixin is one


class Terms(Protocol):
    """What the mixin asks of ``HeadTerms``."""

    def acts_on(self, model: nn.Module) -> bool:
        """Return True if the terms act on attention of the model."""
        ...

    def collect(
        self, inputs: Mapping[str, Any], step: int | None = None, *, shifted: bool = False
    ) -> AbstractContextManager[Batch]:
        """Record the head states of a forward pass."""
        ...


class HeadTermsMixin(Trainer):
    """Mixin: adds loss terms to a ``Trainer``; list it before the trainer's class.

    The loss becomes mean loss of the labels + sum of weight * term. If the base class divides the
    summed loss by the labels of all accumulated batches, a batch's terms are weighted by its share
    of these labels. If it averages over the batches, terms are averaged too. Evaluation has no
    terms.
    """

    head_terms: Terms  # set by HeadTerms.trainer
    model: nn.Module

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._sums: dict[str, Tensor] = {}
        self._added: Tensor | float = 0.0
        if self.args.n_gpu > 1:
            raise UserError(
                f"HeadTerms: nn.DataParallel over {self.args.n_gpu} GPUs is not supported; start "
                "one process per GPU with torchrun --nproc-per-node"
            )
        if not self.head_terms.acts_on(self.model):
            raise UserError(
                "HeadTerms: the trainer has another model, or the terms are closed; give Trainer "
                "the model of HeadTerms, and no model_init"
            )

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """Train on a batch; return its loss without the terms, for the base's log."""
        self._added = 0.0
        return super().training_step(*args, **kwargs) - self._added

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor | tuple[Tensor, Any]:
        """Compute the base's loss and, in training, add the terms."""
        if not model.training:
            return super().compute_loss(
                model, inputs, return_outputs, num_items_in_batch=num_items_in_batch
            )
        shifted = getattr(self, "_loss_shifts_labels", False)
        step = self.state.global_step
        with self.head_terms.collect(inputs, step, shifted=shifted) as batch:
            result = super().compute_loss(
                model, inputs, return_outputs, num_items_in_batch=num_items_in_batch
            )
        loss, outputs = result if isinstance(result, tuple) else (result, None)
        added = batch.loss()
        if torch.is_tensor(added):
            share, divisor = self._share(batch.sample_size, num_items_in_batch)
            added = share * added.to(loss.device)
            loss = loss + added
            self._added = added.detach() / divisor
        self._count(batch, loss.device)
        return (loss, outputs) if return_outputs else loss

    def _share(
        self, labels: Tensor | int, all_labels: Tensor | int | None
    ) -> tuple[Tensor | float, int]:
        """Return the factor of a batch's terms, and the divisor that the base applies later."""
        scaled = getattr(self, "loss_is_scaled_for_ga", None)  # transformers 5.0 has no such field
        if scaled is None:
            counted = self.model_accepts_loss_kwargs and all_labels is not None
            scaled = counted or self.compute_loss_func is not None
        steps = self.current_gradient_accumulation_steps
        if not scaled:
            return 1.0, steps
        if all_labels is None:
            return 1.0 / steps, 1
        # The base multiplies its loss by ``processes``, because processes average gradients.
        processes = self.accelerator.num_processes if self.args.average_tokens_across_devices else 1
        return processes * labels / all_labels, 1

    def _count(self, batch: Batch, device: torch.device) -> None:
        """Add a batch's values to the sums whose means are logged next."""
        values = logged_values(batch.measured)
        if values:
            values["diversity_loss"] = batch.loss()
        for name, value in values.items():
            size = torch.as_tensor(batch.sample_size, device=device, dtype=torch.float32)
            value = torch.as_tensor(value, device=device, dtype=torch.float32).detach()
            pair = torch.stack([value * size, size])
            self._sums[name] = self._sums.get(name, 0.0) + pair

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log; with a training loss, log each term's mean over the batches since the last log."""
        if "loss" in logs:
            for name, pair in sorted(self._sums.items()):
                total, size = torch.as_tensor(self.accelerator.reduce(pair, "sum")).tolist()
                logs[name] = total / size
            self._sums.clear()
        return super().log(logs, *args, **kwargs)
