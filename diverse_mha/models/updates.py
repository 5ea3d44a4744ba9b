"""How far a training is, for losses that depend on it."""


class CountsUpdates:
    """Mixed into models, before fairseq's: remembers the number of updates done.

    fairseq tells models, not criterions, in every training step and when a checkpoint is
    loaded.

    Attributes:
        num_updates: the number; None before fairseq has told it.
    """

    num_updates: int | None = None

    def set_num_updates(self, num_updates: int) -> None:
        """Take the number of updates done, and pass it on as fairseq does."""
        super().set_num_updates(num_updates)
        self.num_updates = num_updates
