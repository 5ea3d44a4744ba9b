"""Base of all models."""

from collections.abc import Iterable

from torch import nn

from diverse_mha.models.seams import SIDES
from diverse_mha.models.warm_start import StartsWarm


class DiverseModel(StartsWarm):
    """Number of heads, updates done, and decoding; comes before fairseq's among the bases.

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

    def make_generation_fast_(
        self, retain_dropout_modules: list[str] | None = None, **options
    ) -> None:
        """Prepare to decode; ``retain_dropout_modules`` may have fairseq's class names."""
        if retain_dropout_modules is not None:
            retain_dropout_modules = _with_heirs(retain_dropout_modules, self.modules())
        super().make_generation_fast_(retain_dropout_modules=retain_dropout_modules, **options)

    @property
    def heads(self) -> dict[str, int]:
        """Number of heads of each attention in the model."""
        stacks = {component: getattr(self, side, None) for component, side in SIDES.items()}
        return {
            component: getattr(stack.cfg, SIDES[component]).attention_heads
            for component, stack in stacks.items()
            if stack is not None and stack.layers and (component != "cross" or stack.crossing)
        }


def _with_heirs(names: list[str], modules: Iterable[nn.Module]) -> list[str]:
    """Add the names of inheriting classes; names may lack ``Base`` at their end."""
    heirs = {
        type(module).__name__
        for module in modules
        for theirs in type(module).__mro__
        if {theirs.__name__, theirs.__name__.removesuffix("Base")} & set(names)
    }
    return [*names, *heirs]
