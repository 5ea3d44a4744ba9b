"""What a model tells the loss about its output projection."""

from torch import Tensor, nn


class OutputWeight:
    """Mixed into models, so that a loss can do the projection itself."""

    def output_weight(self) -> Tensor | None:
        """Return the output projection's weight (V, C), or None if it is not a plain one."""
        projection = self.decoder.output_projection
        if self.decoder.adaptive_softmax is not None or type(projection) is not nn.Linear:
            return None
        # What only a call of the module would do: hooks, and the weights that pruning and the
        # older weight norm compute in one.
        hooked = projection._forward_hooks or projection._forward_pre_hooks
        if hooked or "weight" not in projection._parameters:
            return None
        return projection.weight if projection.bias is None else None
