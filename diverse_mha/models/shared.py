"""Base of all models."""

from diverse_mha.models.seams import SIDES
from diverse_mha.models.warm_start import StartsWarm


class DiverseModel(StartsWarm):
    """Number of heads and of updates done; comes before fairseq's among the bases.

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
        """Number of heads of each attention in the model."""
        stacks = {component: getattr(self, side, None) for component, side in SIDES.items()}
        return {
            component: getattr(stack.cfg, SIDES[component]).attention_heads
            for component, stack in stacks.items()
            if stack is not None and stack.layers and (component != "cross" or stack.crossing)
        }
