"""The network across heads, sigma in Zheng et al. 2021."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

NEGATIVE_SLOPE = 0.2  # of the LeakyReLU


class _Layer(nn.Linear):
    """Not ``nn.Linear``, as torch's quantisation would hide its weights from kernels."""


class HeadNetwork(nn.Module):
    """A perceptron from H heads to H heads, the same at every (query, key) pair.

    Zheng et al. 2021, Eq. 4 and appendix A, as in the authors' release::

        h_1 = LeakyReLU(W_1 x + b_1),  h_k = LeakyReLU(W_k h_(k-1) + b_k),  y = W h_depth + b

    with x the H logits of a pair and LeakyReLU of slope 0.2. Weights start as Xavier uniform with
    gain 1/sqrt(2), biases as 0. The release has two hidden layers of width 4 H; the paper's text
    has one, with a width of 2, 4 or 8 times H.

    Args:
        num_heads: H.
        hidden_ratio: width of the hidden layers, in multiples of H.
        depth: number of hidden layers.
    """

    def __init__(self, num_heads: int, *, hidden_ratio: int = 4, depth: int = 2):
        super().__init__()
        widths = [num_heads] + [hidden_ratio * num_heads] * depth + [num_heads]
        pairs = zip(widths[:-1], widths[1:], strict=True)
        self.layers = nn.ModuleList(_Layer(before, after) for before, after in pairs)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights and set the biases to zero."""
        for layer in self.layers:
            nn.init.xavier_uniform_(layer.weight, gain=1.0 / math.sqrt(2.0))
            nn.init.zeros_(layer.bias)

    def flat_parameters(self) -> list[Tensor]:
        """Return weight and bias of each layer in turn: W_1, b_1, W_2, b_2 and so on."""
        return [p for layer in self.layers for p in (layer.weight, layer.bias)]

    def forward(self, x: Tensor) -> Tensor:
        """Apply the network to every pair of (B, H, T, S)."""
        x = x.permute(0, 2, 3, 1)  # (B, T, S, H)
        for layer in self.layers[:-1]:
            x = F.leaky_relu(layer(x), NEGATIVE_SLOPE)  # (B, T, S, hidden_ratio * H)
        return self.layers[-1](x).permute(0, 3, 1, 2)  # (B, H, T, S)
