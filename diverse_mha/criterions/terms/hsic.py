"""HSIC between the outputs of the heads (Yun et al. 2021) as a part of the loss."""

from dataclasses import dataclass

import torch

from diverse_mha.common.options import POSITIVE, SEVERAL, option
from diverse_mha.criterions.terms.base import TERMS, Term, components_option, weight_option
from diverse_mha.regularizers import hsic, sample_positions
from diverse_mha.regularizers.hsic import DEFAULT_NORMALIZATION, KERNELS, NORMALIZATIONS


@dataclass
class HSICOptions:
    """How strongly, where, and of which samples."""

    hsic_weight: str = weight_option(
        "0.0",
        "weight of HSIC between the outputs of the heads, which is minimised (Yun et al. 2021, "
        "whose lambda is 1e-7); 0: off",
    )
    hsic_on: str | None = components_option("HSIC applies")
    hsic_kernel: str = option("linear", "kernel of HSIC: linear or rbf", choices=KERNELS)
    hsic_normalization: str = option(
        DEFAULT_NORMALIZATION,
        "scale of HSIC over N positions: trace, tr(K C K C), or mean, that divided by (N-1)^2; "
        "equations.md says how lambda depends on it",
        choices=NORMALIZATIONS,
    )
    hsic_samples: int = option(
        512,
        "number of positions of a batch that HSIC takes at most: drawn at random in training, "
        "evenly spaced in validation",
        legal=SEVERAL,
    )
    hsic_bandwidth: float = option(
        1.0,
        "bandwidth of the rbf kernel, in multiples of the median distance of a head's samples",
        legal=POSITIVE,
        goes_with=("hsic_kernel", "rbf"),
    )


@TERMS.register
class HSIC(Term):
    """Mean HSIC of the pairs of heads, at least 0, lower = more diverse; minimised.

    The samples are positions of the whole batch, the same in all layers of a component.
    """

    name, options, wanted = "hsic", HSICOptions, ("outputs",)

    @property
    def joinable(self):
        """Its value, if there is a form for several samples."""
        return ("hsic",) if self.given.hsic_kernel == "linear" else ()

    def shared(self, layers, training):
        """Draw the positions; and say how many sentences a layer has."""
        outputs = layers[0].outputs  # (B, H, T, D)
        positions = sample_positions(
            layers[0].query_padding_mask,
            (outputs.size(0), outputs.size(2)),
            self.given.hsic_samples,
            training=training,
            device=outputs.device,
        )
        return positions, outputs.size(0)

    def value(self, name, states, shared):
        """Compute the mean HSIC at the positions, of one layer or of several that were joined."""
        positions, sentences = shared
        joined = states.outputs.size(0) // max(sentences, 1)
        if joined > 1:
            first = torch.arange(joined, device=positions.device) * sentences
            positions = positions + first[:, None] * states.outputs.size(2)
        return hsic(
            states.outputs,
            positions=positions,
            kernel=self.given.hsic_kernel,
            normalization=self.given.hsic_normalization,
            bandwidth=self.given.hsic_bandwidth,
        )
