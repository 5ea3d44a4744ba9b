"""What all our models show of themselves."""

from collections.abc import Iterable

from torch import nn

from diverse_mha.models.seams import SIDES
from diverse_mha.models.warm_start import StartsWarm


class DiverseModel(StartsWarm):
    """Mixed into models, before fairseq's: their heads, and how far a training is.

    fairseq tells models, not criterions, the number of updates in every training step and when a
    checkpoint is loaded.

    Attributes:
        num_updates: the number of updates done; None before fairseq has told it.
    """

    num_updates: int | None = None

    def set_num_updates(self, num_updates: int) -> None:
        """Take the number of updates done, and pass it on as fairseq does."""
        super().set_num_updates(num_updates)
        self.num_updates = num_updates

    def make_generation_fast_(
        self, retain_dropout_modules: list[str] | None = None, **options
    ) -> None:
        """Get ready to decode; the modules may be named as fairseq names its own."""
        if retain_dropout_modules is not None:
            retain_dropout_modules = _with_heirs(retain_dropout_modules, self.modules())
        super().make_generation_fast_(retain_dropout_modules=retain_dropout_modules, **options)

    @property
    def heads(self) -> dict[str, int]:
        """Number of heads of each attention that the model has."""
        stacks = {component: getattr(self, side, None) for component, side in SIDES.items()}
        return {
            component: getattr(stack.cfg, SIDES[component]).attention_heads
            for component, stack in stacks.items()
            if stack is not None and stack.layers and (component != "cross" or stack.crossing)
        }


def _with_heirs(names: list[str], modules: Iterable[nn.Module]) -> list[str]:
    """Add to names of classes, ``Base`` at their end or not, those of the classes that inherit."""
    heirs = {
        type(module).__name__
        for module in modules
        for theirs in type(module).__mro__
        if {theirs.__name__, theirs.__name__.removesuffix("Base")} & set(names)
    }
    return [*names, *heirs]
