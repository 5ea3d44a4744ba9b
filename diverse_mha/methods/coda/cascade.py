"""Cascades: logit maps that add the logits of the layer before."""

from abc import abstractmethod
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from diverse_mha.attention.registries import LOGITS, LogitMap
from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.options import Method, Place, option
from diverse_mha.common.ranges import ANY_COUNT, COUNT, NOT_NEGATIVE
from diverse_mha.methods.coda.backend import network_function
from diverse_mha.methods.coda.chunked import HeadNetwork


class Cascade(LogitMap):
    """Logits of a layer from its own q.k and the logits of the layer before.

    Zheng et al. 2021, Eq. 4: the logits z^l are Gaussian with unit variance and mean
    ``q k^T / sqrt(D) + sigma(z^(l-1))``. Training draws one sample. Evaluation takes the mean,
    which subclasses define, or draws ``samples`` chains z^1, z^2, ... of logits through the layers
    and averages their weights in every layer: E[softmax(z)] instead of softmax(E[z]).

    Args:
        noise: standard deviation of the noise, 1 in the paper; 0 for none.
        mean_over: number of layers before this one, whose contributions are averaged; 0 adds their
            sum, as in the paper. A layer's contribution is its logits without those it added. A
            layer that layer drop leaves out counts as the mean of those before it.
        samples: K, the number of samples at evaluation; 0 takes the mean, as the authors' release.
    """

    def __init__(self, *, noise: float = 0.0, mean_over: int = 0, samples: int = 0):
        super().__init__()
        self.noise, self.mean_over, self.samples = noise, mean_over, samples

    def extra_repr(self) -> str:
        """Describe the module for ``print(model)``."""
        return f"noise={self.noise}, mean_over={self.mean_over}, samples={self.samples}"

    @property
    def _copies(self) -> int:
        """K if samples are averaged, else 0."""
        return 0 if self.training else self.samples

    def average(self, x: Tensor) -> Tensor:
        """Average the samples: (B, K H, T, S) -> (B, H, T, S)."""
        return x.unflatten(1, (self._copies, -1)).mean(dim=1) if self._copies else x

    def carry(self, logits: Tensor, previous: Tensor | None) -> Tensor:
        """Return what the next layer adds: all contributions summed (the logits) or averaged.

        The weights of the average are those of all layers before, also where layer drop leaves some
        out, so that they are the same in training and evaluation.
        """
        if previous is None or not self.mean_over:
            return logits
        previous = previous.to(logits.dtype)
        return torch.lerp(previous, logits - previous, 1.0 / (self.mean_over + 1))

    def acts(self, previous: Tensor | None) -> bool:
        """Return True in training, with samples, or if the layer before passed on its logits."""
        return self.training or self.samples > 0 or previous is not None

    def forward(
        self,
        logits: Tensor,
        previous: Tensor | None,
        masked: Tensor | None = None,
        queries: Tensor | None = None,
        keys: Tensor | None = None,
    ) -> Tensor:
        """Add the logits of the layer before, and noise in training; see ``LogitMap.forward``.

        Masked cells of ``logits`` and ``previous`` are never read, even if NaN. They become 0 and
        get no gradient; the caller masks them in the softmax.

        Returns:
            (B, H, T, S). With K samples at evaluation, (B, K H, T, S), where the H heads of a
            sample are adjacent; ``previous`` then has this shape too.

        Raises:
            ValueError: if ``previous`` and the result differ in shape, or ``masked`` is not bool.
        """
        if self._copies:
            logits = logits.repeat(1, self._copies, 1, 1)
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
        noise = self.noise if self.training or self._copies else 0.0
        if not self._copies:
            return self._sample(logits, previous, masked, noise)
        previous = None if previous is None else self._by_sample(previous)
        if masked is not None and masked.dim() == 4 and masked.size(0) > 1:
            masked = masked.repeat_interleave(self._copies, dim=0)
        own = self._by_sample(logits)
        return self._sample(own, previous, masked, noise).view(logits.shape)

    def _by_sample(self, x: Tensor) -> Tensor:
        """Give each sample a row of the batch: (B, K H, T, S) -> (B K, H, T, S)."""
        return x.unflatten(1, (self._copies, -1)).flatten(0, 1)

    @abstractmethod
    def _sample(
        self, logits: Tensor, previous: Tensor | None, masked: Tensor | None, noise: float
    ) -> Tensor:
        """Return the mean plus noise of standard deviation ``noise``."""


class NoCascade(Cascade):
    """z^l = q.k + noise: CODA-CS of Zheng et al. 2021, and every first layer.

    Choose it to see what CODA's noise does without the network. It lowered BLEU by 2 to 3 in our
    study, also at the best learning rate that we tried.
    """

    def _sample(self, logits, previous, masked, noise):
        return _add((logits,), masked, noise)


class ResidualCascade(Cascade):
    """z^l = q.k + z^(l-1) + noise; without noise RealFormer (He et al. 2020).

    Choose it to reproduce RealFormer. In our study it made translations worse with the baseline's
    settings, so tune the learning rate.
    """

    def _sample(self, logits, previous, masked, noise):
        terms = (logits,) if previous is None else (logits, previous)
        return _add(terms, masked, noise)


class NetworkCascade(Cascade):
    """z^l = x + sigma(x) + noise with x = q.k + z^(l-1), and x = 0 at masked cells.

    Choose it to reproduce CODA. Attention maps of heads differ most with it, it costs 1.3 times the
    time of an update, and needs settings of its own.

    Zheng et al. 2021, Eq. 4, in the form of the authors' release: the paper writes
    ``q.k + sigma(z^(l-1))`` with a residual link inside sigma; the release gives the network the
    sum x and adds z^(l-1) outside it. ``network_input="previous"`` is the printed form, z^l = q.k +
    sigma(z^(l-1)) + noise with sigma(z) = z + network(z), and z^(l-1) = 0 at masked cells. In half
    precision the network runs in the dtype of the logits, and gradients of its parameters are
    summed in float32.

    Args:
        num_heads: H.
        hidden_ratio: width of the hidden layers, in multiples of H.
        depth: number of hidden layers.
        network_input: what the network reads: ``"sum"``, x, or ``"previous"``, z^(l-1).
        noise: as for ``Cascade``.
        mean_over: as for ``Cascade``.
        samples: as for ``Cascade``.
    """

    def __init__(
        self,
        num_heads: int,
        *,
        hidden_ratio: int = 4,
        depth: int = 2,
        network_input: str = "sum",
        **options: Any,
    ):
        super().__init__(**options)
        self.network_input = network_input
        self.network = HeadNetwork(num_heads, hidden_ratio=hidden_ratio, depth=depth)

    def _sample(self, logits, previous, masked, noise):
        if previous is None:
            return _add((logits,), masked, noise)
        parameters = [p.to(logits.dtype) for p in self.network.flat_parameters()]
        network = network_function(logits, masked, parameters)
        if self.network_input == "sum":
            return network.apply(logits, previous, masked, noise, *parameters)
        nothing = torch.zeros_like(previous)
        sigma = network.apply(nothing, previous, masked, noise, *parameters)
        return _add((sigma, logits), masked, 0.0)


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


CASCADES = ("none", "residual", "mlp")
INPUTS = ("sum", "previous")


@dataclass
class NoiseOptions:
    """Noise on the logits, an option of every cascade.

    A noise of 1 is CODA's, and without a cascade it is CODA-CS, which harms in our study. With
    ``attention_samples`` evaluation averages over noise, at a multiple of the time.
    """

    attention_noise: float = option(
        0.0,
        "standard deviation of the Gaussian noise on attention logits in training",
        legal=NOT_NEGATIVE,
    )
    attention_samples: int = option(
        0,
        "number of samples of the logits at evaluation, over which attention weights are averaged; "
        "0: take the mean of the logits, as the authors' released code",
        legal=ANY_COUNT,
    )


@dataclass
class CarryOptions(NoiseOptions):
    """What a layer adds of the layers before.

    The sum of the papers grows with every layer and sharpens attention. Choose the mean if you want
    a cascade without that.
    """

    cascade_form: str = option(
        "sum",
        "what a layer adds of the layers before: the sum of their logits (the papers), or the "
        "mean (not in the papers), where dropped layers count as the mean before",
        choices=("sum", "mean"),
    )


@dataclass
class NetworkOptions(CarryOptions):
    """Shape and input of CODA's network.

    The defaults are those of the authors' released code. A depth of 1 that reads ``previous`` is
    the form in the paper; the paper chooses the ratio among 2, 4 and 8 on validation data.
    """

    cascade_hidden_ratio: int = option(
        4,
        "width of the cascade's hidden layers, in multiples of the number of heads",
        legal=COUNT,
    )
    cascade_depth: int = option(
        2,
        "number of hidden layers of the cascade's network: 2 in the authors' released code, 1 in "
        "the paper",
        legal=COUNT,
    )
    cascade_network_input: str = option(
        "sum",
        "logits that the cascade's network reads: the sum of the layer's own and those of the "
        "layer before (authors' released code), or those of the previous layer alone (paper)",
        choices=INPUTS,
    )


def _build(kind: str, options: NoiseOptions, place: Place) -> Cascade | None:
    given = {k.removeprefix("cascade_"): v for k, v in asdict(options).items()}
    given["noise"], given["samples"] = given.pop("attention_noise"), given.pop("attention_samples")
    given["mean_over"] = place.number - 1 if given.pop("form", "sum") == "mean" else 0
    # The first layer has no layer before it, so it only adds noise.
    return build_cascade(kind if place.number > 1 else "none", place.num_heads, **given)


def _check(options: NoiseOptions, place: Place) -> None:
    if options.attention_samples and not options.attention_noise:
        raise UserError(
            Option("attention_samples", options.attention_samples),
            ": all samples are equal without noise; give ", Option("attention_noise"),
            ", or leave it out",
        )  # fmt: skip


def _method(kind: str, text: str, options: type = NoiseOptions) -> Method:
    plain = kind == "none"
    return Method(
        kind,
        text,
        partial(_build, kind),
        options,
        _check,
        stock=plain,
        carries=not plain,
        head_axes={} if plain else None,
    )


LOGITS.register(_method("none", "none"))
LOGITS.register(
    _method("residual", "residual (add the logits of the layer before, RealFormer)", CarryOptions)
)
LOGITS.register(
    _method(
        "mlp",
        "mlp (add them through a small network across heads, CODA of Zheng et al. 2021)",
        NetworkOptions,
    )
)


def build_cascade(
    kind: str,
    num_heads: int,
    *,
    hidden_ratio: int = 4,
    depth: int = 2,
    network_input: str = "sum",
    noise: float = 0.0,
    mean_over: int = 0,
    samples: int = 0,
) -> Cascade | None:
    """Return the cascade of one attention module, or None if it would change nothing.

    Use it instead of the classes, to get a row of the paper by its settings.

    The rows of Zheng et al. 2021, Table 4: CODA is ``mlp`` with noise 1, CODA-CS ``none`` with
    noise 1, RealFormer ``residual`` without noise, the Transformer ``none`` without noise. Build
    the first layer with ``none`` and the noise of the other layers.

    Args:
        kind: one of ``CASCADES``.
        num_heads: H.
        hidden_ratio: width of the hidden layers of the network, in multiples of H.
        depth: number of hidden layers. 2 is the authors' released network; 1 is the two-layer
            perceptron of the paper's text.
        network_input: logits that the network reads, one of ``INPUTS``: ``"sum"`` (release), the
            layer's own logits plus those of the layer before, or ``"previous"`` (paper), only
            those of the layer before.
        noise: standard deviation of the noise on the logits, in training and in ``samples``.
        mean_over: number of layers before this one, whose contributions are averaged (not in the
            papers); 0 adds their sum.
        samples: number of samples at evaluation, see ``Cascade``.

    Returns:
        A module ``(logits, previous, masked) -> logits``, or None if ``kind`` is ``none`` and
        ``noise`` is 0.

    Raises:
        ValueError: for an illegal argument.

    Example:
        >>> build_cascade("mlp", 4) is not None  # CODA
        True
        >>> build_cascade("none", 4, noise=0.0) is None  # the Transformer
        True
    """
    if kind not in CASCADES:
        raise ValueError(f"kind is {kind!r}; expected one of {CASCADES}")
    COUNT.check("num_heads", num_heads)
    COUNT.check("hidden_ratio", hidden_ratio)
    COUNT.check("depth", depth)
    NOT_NEGATIVE.check("noise", noise)
    if network_input not in INPUTS:
        raise ValueError(f"network_input is {network_input!r}; expected one of {INPUTS}")
    if mean_over:
        COUNT.check("mean_over", mean_over)
    ANY_COUNT.check("samples", samples)
    draws = {"noise": noise, "samples": samples}
    if kind == "mlp":
        shape = {"hidden_ratio": hidden_ratio, "depth": depth, "network_input": network_input}
        return NetworkCascade(num_heads, **shape, **draws, mean_over=mean_over)
    if kind == "residual":
        return ResidualCascade(**draws, mean_over=mean_over)
    return NoCascade(**draws) if noise else None
