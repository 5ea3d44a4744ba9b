"""Slow reference implementation of the cascaded logits of Zheng et al. 2021.

It loops over sentences, (query, key) pairs and heads. Use it in float64 with tiny shapes.
"""

from torch import Tensor


def leaky_relu(x: Tensor) -> Tensor:
    """LeakyReLU with slope 0.2, for one number."""
    return x if x > 0 else 0.2 * x


def linear(x: list[Tensor], weight: Tensor, bias: Tensor) -> list[Tensor]:
    """Return W x + b for a list of numbers x."""
    result = []
    for i in range(weight.size(0)):
        total = bias[i]
        for j in range(weight.size(1)):
            total = total + weight[i, j] * x[j]
        result.append(total)
    return result


def network(x: list[Tensor], layers: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """Apply the network sigma at one (query, key) pair: linear layers, LeakyReLU between them."""
    for weight, bias in layers[:-1]:
        x = [leaky_relu(value) for value in linear(x, weight, bias)]
    return linear(x, *layers[-1])


def cascade(
    logits: Tensor,
    previous: Tensor | None,
    masked: Tensor | None = None,
    *,
    kind: str,
    layers: list[tuple[Tensor, Tensor]] = (),
    network_input: str = "sum",
) -> Tensor:
    """Return the cascaded logits of a layer; masked cells are 0.

    q.k is ``logits``, and z is ``previous``, the logits of the previous layer. The network sigma
    reads 0 in masked cells. ``kind="mlp"``: q.k + sigma(z + q.k) + z; if ``network_input`` is not
    "sum", q.k + sigma(z) + z, as printed in the paper. ``kind="residual"``: q.k + z.
    ``kind="none"``: q.k.
    """
    bsz, num_heads, tgt_len, src_len = logits.shape
    result = 0.0 * logits
    for b in range(bsz):
        for t in range(tgt_len):
            for s in range(src_len):
                hidden = [
                    masked is not None and bool(masked.expand(logits.shape)[b, h, t, s])
                    for h in range(num_heads)
                ]
                own = [logits[b, h, t, s] for h in range(num_heads)]
                mean = own
                if previous is not None and kind != "none":
                    before = [previous[b, h, t, s] for h in range(num_heads)]
                    mean = [own[h] + before[h] for h in range(num_heads)]
                    if kind == "mlp":
                        x = mean if network_input == "sum" else before
                        x = [0.0 * own[h] if hidden[h] else x[h] for h in range(num_heads)]
                        fused = network(x, layers)
                        mean = [own[h] + fused[h] + before[h] for h in range(num_heads)]
                for h in range(num_heads):
                    if not hidden[h]:
                        result[b, h, t, s] = mean[h]
    return result
