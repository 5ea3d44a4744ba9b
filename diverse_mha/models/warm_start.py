"""Starts training from checkpoints that lack parts of ours, and explains those that do not fit.

A stock checkpoint lacks the cascades of ``transformer_coda`` and the routings of
``transformer_routing``. With ``--finetune-from-model`` such parts keep their initial values.
fairseq still loads strictly: a hook of torch's completes its input.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn

from diverse_mha.attention.core import OpenHeads
from diverse_mha.common.errors import OptionError
from diverse_mha.fairseq_fixes.starting_point import FINETUNE
from diverse_mha.models.config import seam_options

logger = logging.getLogger(__name__)


class StartsWarm:
    """Mixed into models, before fairseq's: takes checkpoints that lack parts of ours."""

    @property
    def method_options(self) -> tuple[str, ...]:
        """Options that a run keeps from its first start to its last; a plugin's too."""
        return tuple(f.name for f in seam_options())

    @contextmanager
    def loading(self, path: str, warm: bool) -> Iterator[None]:
        """Load a checkpoint of another architecture, or say in one line why it does not fit.

        If ``warm``, parts that it lacks keep their initial values; the log names them.
        """
        given: dict[str, Tensor] = {}

        def complete(model, state, *rest):
            filled = fill(model, state) if warm else []
            if filled:
                said = ", ".join(filled)
                logger.info("warm start from %s: new, at their initial values: %s", path, said)
            given.update(state)

        hook = self.register_load_state_dict_pre_hook(complete)
        try:
            yield
        except Exception as error:
            if isinstance(error.__context__, OptionError):  # fairseq's trainer hides it
                raise error.__context__ from None
            why = misfit(self, given)
            if not given or not why:
                raise
            cure = "give the architecture, sizes and dictionaries that it was trained with"
            if fill(self, given) and not misfit(self, given):
                cure = f"give it by {FINETUNE} to begin with those missing at their initial values"
            raise OptionError(
                f"{path}: does not fit the model: of its parameters {why}; {cure}"
            ) from error
        finally:
            hook.remove()


def fill(model: nn.Module, state: dict[str, Tensor]) -> list[str]:
    """Complete ``state`` in place with the present parameters of parts that it lacks.

    A part is what a method puts into an attention module. One in place of the output projection
    removes that projection from ``state``. A part that ``state`` has in part is not touched.

    Returns:
        The names of the completed parts.
    """
    filled = []
    for name, part in _parts(model):
        own = {f"{name}.{key}": value for key, value in part.state_dict().items()}
        stock = {f"{name}.{key}" for key in ("weight", "bias")}  # an output projection's
        new = own.keys() - stock
        if not new or new & state.keys():
            continue
        for key in stock & state.keys() - own.keys():
            del state[key]
        state.update({key: own[key] for key in new})
        filled.append(name)
    return filled


def misfit(model: nn.Module, parameters: Mapping[str, Tensor]) -> str:
    """Say how parameters differ from a model's, with an example of each; empty if they fit."""
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
            for part in ("cascade", "out_proj", "drophead"):
                inner = getattr(module, part)
                if inner is not None and type(inner) is not nn.Linear:
                    yield f"{name}.{part}", inner
