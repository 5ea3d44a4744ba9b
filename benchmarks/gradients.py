"""How strong a weight is: ``python -m benchmarks.gradients CHECKPOINT DATA``.

For each term the norm of its gradient with respect to the model's parameters beside that
of the token loss (mean negative log-likelihood, nats). A term with a ratio r and a weight
w pulls w * r times as hard as the tokens do; far below 1 it hardly acts, far above 1 it
drowns them.
"""

import itertools
import statistics
import sys
from collections.abc import Sequence

import torch.nn.functional as F
from torch import nn

from diverse_mha.analysis.checkpoints import iterate_batches, load
from diverse_mha.common.arguments import OneLineParser, add_number
from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.criterions.combined_terms import DiversityTerms
from diverse_mha.criterions.config import DiversityConfig
from diverse_mha.criterions.gradient_share import gradient_norm

_MEAN = {"orthogonality_weight": 1.0, "orthogonality_normalization": "mean-loss"}
TERMS = {
    "disagreement output": {"disagreement": "output"},
    "hsic, trace": {"hsic_weight": 1.0, "hsic_normalization": "trace"},
    "hsic, mean": {"hsic_weight": 1.0, "hsic_normalization": "mean"},
    "orthogonality, SRIP": {**_MEAN, "orthogonality_cosine_projections": "none"},
    "orthogonality": _MEAN,
    "orthogonality, summed": {**_MEAN, "orthogonality_normalization": "summed-loss"},
}


def gradient_norms(model: nn.Module, sample: dict, padding: int) -> dict[str, float]:
    """Norm of the gradient of the token loss, under ``token loss``, and of every term."""
    terms = {name: DiversityTerms.from_config(DiversityConfig(**o)) for name, o in TERMS.items()}
    wanted = tuple(dict.fromkeys(state for term in terms.values() for state in term.wanted))
    net_output = model(**sample["net_input"], return_head_states=wanted)
    states = net_output[1]["head_states"]
    target = model.get_targets(sample, net_output)
    log_probs = model.get_normalized_probs(net_output, log_probs=True).flatten(0, -2).float()
    losses = {"token loss": F.nll_loss(log_probs, target.flatten(), ignore_index=padding)}
    size = int(target.ne(padding).sum())
    for name, term in terms.items():
        losses[name] = sum(value.loss for value in term.measure(states, size).values())
    parameters = [p for p in model.parameters() if p.requires_grad]
    return {name: float(gradient_norm(loss, parameters)) for name, loss in losses.items()}


def main(arguments: Sequence[str]) -> int:
    """Print the table and return the exit code."""
    parser = OneLineParser(
        prog="benchmarks.gradients",
        description="Print the gradient norm of every term, at weight 1, relative to that of "
        "the token loss: the median over some batches.",
    )
    parser.add_argument("checkpoint", help="checkpoint of a translation or language model")
    parser.add_argument("data", help="folder that fairseq-preprocess wrote")
    parser.add_argument("--subset", default="valid", help="split (default: valid)")
    add_number(parser, "batches", 8, "batches to look at")
    add_number(parser, "max-tokens", 1024, "most tokens in a batch")
    args = parser.parse_args(arguments)
    loaded = load(args.checkpoint, args.data)
    if not hasattr(loaded.model, "decoder"):
        raise UserError(
            f"{args.checkpoint}: a {loaded.architecture} has no token loss; give another model"
        )
    padding = loaded.task.target_dictionary.pad()
    batches = iterate_batches(loaded, args.subset, max_tokens=args.max_tokens)
    found = [
        gradient_norms(loaded.model, sample, padding)
        for sample in itertools.islice(batches, args.batches)
    ]
    print(f"{'term':<22}{'gradient norm':>15}{'of token loss':>16}")
    for name in ("token loss", *TERMS):
        norm = statistics.median(norms[name] for norms in found)
        ratio = statistics.median(norms[name] / norms["token loss"] for norms in found)
        print(f"{name:<22}{norm:>15.3g}{ratio:>16.3g}")
    return 0


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
