"""Base classes of all models: output projection for fused losses, and warm starts.

A stock checkpoint lacks the cascades of ``transformer_coda`` and the routings of
``transformer_routing``. With ``--finetune-from-model`` these parts keep their initial values.
fairseq still loads strictly; one line says why a checkpoint does not fit.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from fairseq.models import BaseFairseqModel
from fairseq.modules.adaptive_softmax import AdaptiveSoftmax, TiedHeadModule, TiedLinear
from torch import Tensor, nn

from diverse_mha.attention.core import OpenHeads
from diverse_mha.common.errors import Option, UserError
from diverse_mha.fairseq_fixes.same_run import FINETUNE
from diverse_mha.models.config import seam_options
from diverse_mha.models.parts import ATTENTIONS, SIDES

logger = logging.getLogger(__name__)


class StartsWarm(BaseFairseqModel):
    """Mixin, before fairseq's model: loads checkpoints that lack parts of our methods."""

    @property
    def method_options(self) -> tuple[str, ...]:
        """Options, a plugin's included, that must not change when a run is resumed."""
        return tuple(f.name for f in seam_options())

    @contextmanager
    def loading(self, path: str, warm: bool) -> Iterator[None]:
        """Context manager for loading a checkpoint: if it does not fit, report why in one line.

        If ``warm``, parts that the checkpoint lacks keep their initial values; the log names them.
        """
        given: dict[str, Tensor] = {}

        def complete(model, state, *rest):
            if model is not self:  # the copy for a moving average, which keeps this hook
                return
            filled = fill(model, state) if warm else []
            if filled:
                names = ", ".join(filled)
                logger.info("warm start from %s: parts at their initial values: %s", path, names)
            given.update(state)

        hook = self.register_load_state_dict_pre_hook(complete)
        try:
            yield
        except Exception as error:
            if isinstance(error.__context__, UserError):  # fairseq's trainer raises another error
                raise error.__context__ from None
            why = misfit(self, given)
            if not given or not why:
                raise
            cure: list[str | Option] = [
                "give the architecture, sizes and dictionaries that it was trained with"
            ]
            if fill(self, given) and not misfit(self, given):
                start = " to start missing parameters at initial values"
                cure = ["give it with ", Option(FINETUNE), start]
            why = f"{path}: does not fit the model: parameters {why}; "
            raise UserError(why, *cure) from error
        finally:
            hook.remove()
            given.clear()  # frees the memory: the copy's hook still has a reference


def fill(model: nn.Module, state: dict[str, Tensor]) -> list[str]:
    """Add the parts that ``state`` lacks, with the model's present parameters, in place.

    A part is a module that a method puts into an attention module. If a part replaces the output
    projection, the projection is removed from ``state``. Parts of which ``state`` has some
    parameters are not completed.

    Returns:
        The names of the completed parts.
    """
    filled = []
    for name, part in _parts(model):
        own = {f"{name}.{key}": value for key, value in part.state_dict().items()}
        stock = {f"{name}.{key}" for key in ("weight", "bias")}  # names of an output projection
        new = own.keys() - stock
        if not new or new & state.keys():
            continue
        for key in stock & state.keys() - own.keys():
            del state[key]
        state.update({key: own[key] for key in new})
        filled.append(name)
    return filled


def misfit(model: nn.Module, parameters: Mapping[str, Tensor]) -> str:
    """Describe how parameters differ from a model's, with examples; empty if they fit."""
    own = model.state_dict()
    groups = {
        "missing": own.keys() - parameters.keys(),
        "unknown": parameters.keys() - own.keys(),
        "of another shape": {
            name for name in own.keys() & parameters if own[name].shape != parameters[name].shape
        },
    }
    return "; ".join(f"{len(names)} {why} ({min(names)})" for why, names in groups.items() if names)


def _parts(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield, by name, the parts of attention modules that fairseq does not have."""
    for name, module in model.named_modules():
        if isinstance(module, OpenHeads):
            for part in ("projections", "cascade", "out_proj", "drophead"):
                inner = getattr(module, part)
                if inner is not None and type(inner) is not nn.Linear:
                    yield f"{name}.{part}", inner


class DiverseModel(StartsWarm):
    """Mixin, before fairseq's model: numbers of heads, and the number of updates done.

    fairseq tells models, not criterions, the number of updates in every training step and when a
    checkpoint is loaded.

    Attributes:
        num_updates: the number of updates done; None before fairseq sets it.
    """

    num_updates: int | None = None

    def set_num_updates(self, num_updates: int) -> None:
        """Store the number of updates done, and pass it on as fairseq does."""
        super().set_num_updates(num_updates)
        self.num_updates = num_updates

    @property
    def heads(self) -> dict[str, int]:
        """Number of heads, including pruned ones, of each component of the model."""
        return {component: side.attention_heads for component, side in self._sides().items()}

    @property
    def post_norm(self) -> set[str]:
        """Components whose layers are normalised after each block."""
        return {c for c, side in self._sides().items() if not side.normalize_before}

    def _sides(self) -> dict:
        """Return the options of the encoder or decoder by component of the model."""
        stacks = {component: getattr(self, side, None) for component, side in SIDES.items()}
        return {
            component: getattr(stack.cfg, SIDES[component])
            for component, stack in stacks.items()
            if stack is not None and stack.layers and (component != "cross" or stack.crossing)
        }

    @property
    def kept_heads(self) -> dict[str, list[tuple[int, ...]]]:
        """Numbers, from 1, of the heads that are left, by component and layer."""
        return {
            component: [
                getattr(layer, ATTENTIONS[component]).kept_heads
                for layer in getattr(self, SIDES[component]).layers
            ]
            for component in self.heads
        }


class OutputWeight:
    """Mixin of models whose output projection a loss may apply."""

    decoder: Any  # fairseq's

    def output_weight(self) -> Tensor | None:
        """Return the weight (V, C) of an output projection without bias or hooks, else None.

        For an adaptive softmax, the head's weight: frequent words, then one row per cluster.
        """
        softmax = self.decoder.adaptive_softmax
        if softmax is not None:
            return _head_weight(softmax)
        return _plain_weight(self.decoder.output_projection)


def _head_weight(softmax: AdaptiveSoftmax) -> Tensor | None:
    head = softmax.head
    # torch types the members of a list as Module.
    tails = [tail[-1] for tail in cast("Iterable[nn.Sequential]", softmax.tail)]
    parts = [head.word_proj, head.class_proj] if isinstance(head, TiedHeadModule) else [head]
    weights = [weight for part in parts if (weight := _plain_weight(part)) is not None]
    if len(weights) < len(parts) or any(_plain_weight(tail) is None for tail in tails):
        return None
    if any(map(_hooked, softmax.modules())):
        return None
    return torch.cat(weights) if len(weights) > 1 else weights[0]


def _plain_weight(linear: nn.Module) -> Tensor | None:
    """Return the weight of a linear map; None if a call does more than multiply by the weight."""
    tied = type(linear) is TiedLinear and not linear.transpose
    if not tied and (type(linear) is not nn.Linear or linear.bias is not None):
        return None
    # Pruning and weight norm compute the weight at each call.
    if _hooked(linear) or "weight" not in linear._parameters:
        return None
    return linear._parameters["weight"]


def _hooked(module: nn.Module) -> bool:
    hooks = ("forward", "forward_pre", "backward", "backward_pre")
    return any(getattr(module, f"_{kind}_hooks") for kind in hooks)
