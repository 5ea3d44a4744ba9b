"""The cascades of attention modules."""

from abc import abstractmethod

import torch
from torch import Tensor

from diverse_mha.attention.seams import LogitMap
from diverse_mha.methods.coda.choice import network_function
from diverse_mha.methods.coda.network import HeadNetwork


class Cascade(LogitMap):
    """Logits of a layer from its own q.k and the logits of the layer before.

    Zheng et al. 2021, Eq. 4: the logits z^l are Gaussian with unit variance and mean
    ``q k^T / sqrt(D) + sigma(z^(l-1))``. Training draws one sample; evaluation takes the mean,
    which subclasses define.

    Args:
        noise: standard deviation of the noise, 1 in the paper; 0 for none.
        mean_over: add the mean of what this many layers before contributed, which is their logits
            less what they added. 0 adds the sum, as in the paper.
    """

    def __init__(self, *, noise: float = 0.0, mean_over: int = 0):
        super().__init__()
        self.noise, self.mean_over = noise, mean_over

    def extra_repr(self) -> str:
        """Describe the module for ``print(model)``."""
        return f"noise={self.noise}, mean_over={self.mean_over}"

    def hand_on(self, logits: Tensor, previous: Tensor | None) -> Tensor:
        """Return the logits, which sum all contributions, or the mean of these."""
        if previous is None or not self.mean_over:
            return logits
        previous = previous.to(logits.dtype)
        return torch.lerp(previous, logits - previous, 1.0 / (self.mean_over + 1))

    def acts(self, previous: Tensor | None) -> bool:
        """Return True in training, and if the layer before handed something on."""
        return self.training or previous is not None

    def forward(
        self, logits: Tensor, previous: Tensor | None, masked: Tensor | None = None, *_: Tensor
    ) -> Tensor:
        """Add the logits of the layer before, and noise in training; see ``LogitMap.forward``.

        Masked cells of ``logits`` and ``previous`` are never read, even if NaN. They become 0 and
        get no gradient; the caller masks them in the softmax.

        Raises:
            ValueError: if ``previous`` and ``logits`` differ in shape, or ``masked`` is not bool.
        """
        if previous is not None:
            if previous.shape != logits.shape:
                raise ValueError(
                    f"previous has shape {tuple(previous.shape)}; "
                    f"expected that of logits, {tuple(logits.shape)}"
                )
            previous = previous.to(logits.dtype)
        if masked is not None and masked.dtype != torch.bool:
            raise ValueError(
                f"masked has dtype {masked.dtype}; expected torch.bool, True = may not attend"
            )
        return self._sample(logits, previous, masked, self.noise if self.training else 0.0)

    @abstractmethod
    def _sample(
        self, logits: Tensor, previous: Tensor | None, masked: Tensor | None, noise: float
    ) -> Tensor:
        """Return the mean plus noise of standard deviation ``noise``."""


class NoCascade(Cascade):
    """z^l = q.k + noise: CODA-CS of Zheng et al. 2021, and every first layer."""

    def _sample(self, logits, previous, masked, noise):
        return _add((logits,), masked, noise)


class ResidualCascade(Cascade):
    """z^l = q.k + z^(l-1) + noise; without noise RealFormer (He et al. 2020)."""

    def _sample(self, logits, previous, masked, noise):
        terms = (logits,) if previous is None else (logits, previous)
        return _add(terms, masked, noise)


class NetworkCascade(Cascade):
    """z^l = x + sigma(x) + noise with x = q.k + z^(l-1), and x = 0 at masked cells.

    Zheng et al. 2021, Eq. 4, in the form of the authors' release: the paper writes
    ``q.k + sigma(z^(l-1))`` with a residual link inside sigma; the release gives the network the
    sum x and adds z^(l-1) outside it. In half precision the network runs in the dtype of the
    logits, and gradients of its parameters are summed in float32.

    Args:
        num_heads: H.
        hidden_ratio: width of the hidden layers, in multiples of H.
        depth: number of hidden layers.
        noise: standard deviation of the noise in training.
        mean_over: as for ``Cascade``.
    """

    def __init__(
        self,
        num_heads: int,
        *,
        hidden_ratio: int = 4,
        depth: int = 2,
        noise: float = 0.0,
        mean_over: int = 0,
    ):
        super().__init__(noise=noise, mean_over=mean_over)
        self.network = HeadNetwork(num_heads, hidden_ratio=hidden_ratio, depth=depth)

    def _sample(self, logits, previous, masked, noise):
        if previous is None:
            return _add((logits,), masked, noise)
        parameters = [p.to(logits.dtype) for p in self.network.flat_parameters()]
        network = network_function(logits, masked, parameters)
        return network.apply(logits, previous, masked, noise, *parameters)


def _add(terms: tuple[Tensor, ...], masked: Tensor | None, noise: float) -> Tensor:
    """Return the sum of one or two terms and noise, 0 at masked cells."""
    result = terms[0]
    if noise:
        result = torch.empty(result.shape, dtype=result.dtype, device=result.device)
        result.normal_(0.0, noise)
        for term in terms:
            result = result.add_(term)
    elif len(terms) == 2:
        result = terms[0] + terms[1]
    if masked is None:
        return result
    if result is terms[0]:
        return result.masked_fill(masked, 0.0)
    return result.masked_fill_(masked, 0.0)
