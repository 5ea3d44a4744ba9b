"""HSIC between the outputs of the heads (Yun et al. 2021) as a part of the loss."""

from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.common.errors import OptionError
from diverse_mha.criterions.config import refuse_idle
from diverse_mha.criterions.terms.base import Term, by_component
from diverse_mha.criterions.weights import Weights
from diverse_mha.regularizers import hsic, sample_positions

_ALL_BUT_WEIGHT = ("on", "kernel", "normalization", "samples", "bandwidth")


class HSIC(Term):
    """Mean HSIC of the pairs of heads, at least 0, lower = more diverse; minimised.

    The samples are positions of the whole batch, the same in all layers of a component.

    Args:
        components: names of components, or none for all that the model has.
        weights: lambda.
        samples: how many positions at most.
        **options: kernel, normalization and bandwidth of ``regularizers.hsic``.
    """

    option = "--hsic-weight"
    wanted = ("outputs",)

    def __init__(self, components: tuple[str, ...], weights: Weights, samples: int, **options):
        self.components, self.weights = components, weights
        self.on_option = self.option if weights.by_component else "--hsic-on"
        self.samples, self.options = samples, options

    @classmethod
    def from_config(cls, cfg):
        """Read the method off the options; see ``Term.from_config``."""
        weights = Weights.parse(cls.option, cfg.hsic_weight)
        components = weights.components(cls.option, "--hsic-on", cfg.hsic_on)
        if cfg.hsic_samples < 2:
            raise OptionError(f"--hsic-samples {cfg.hsic_samples}: must be 2 or more")
        if not 0 < cfg.hsic_bandwidth < float("inf"):
            raise OptionError(f"--hsic-bandwidth {cfg.hsic_bandwidth}: must be a positive number")
        if not weights:
            idle = tuple(f"hsic_{option}" for option in _ALL_BUT_WEIGHT)
            refuse_idle(cfg, idle, "with --hsic-weight 0; give a weight above 0")
            return None
        kernel = str(cfg.hsic_kernel)
        if kernel != "rbf":
            refuse_idle(cfg, ("hsic_bandwidth",), f"with --hsic-kernel {kernel}; it goes with rbf")
        return cls(
            components,
            weights,
            cfg.hsic_samples,
            kernel=kernel,
            normalization=str(cfg.hsic_normalization),
            bandwidth=cfg.hsic_bandwidth,
        )

    def values(self, head_states, training):
        """Compute the mean HSIC; see ``Term.values``."""

        def of_component(layers: list[HeadStates]) -> list[Tensor]:
            outputs = layers[0].outputs  # (B, H, T, D)
            positions = sample_positions(
                layers[0].query_padding_mask,
                (outputs.size(0), outputs.size(2)),
                self.samples,
                training=training,
                device=outputs.device,
            )
            return [hsic(s.outputs, positions=positions, **self.options) for s in layers]

        return {"hsic": by_component(self.on_option, self.components, head_states, of_component)}
