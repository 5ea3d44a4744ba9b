"""The closing table of ``scripts/quickstart.sh``: BLEU, and what became of the heads."""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from diverse_mha.errors import UserError, run_cli

TERMS = ("subspace", "position", "output")


def head_scores(checkpoint: Path, data: Path, subset: str) -> dict[str, float]:
    """Compute the scores exp(D) of Li et al. 2018 for a trained translation model.

    D is averaged over all attention modules of the model and over the subset: over real
    positions for subspace and output, over sentences for position.

    Args:
        checkpoint: The model.
        data: The binarised data.
        subset: Whose sentences to run through the model, with their references as targets.

    Returns:
        A score in (0, 1] under each of ``TERMS``; higher = more diverse.
    """
    import torch
    from fairseq import checkpoint_utils

    from diverse_mha.regularizers import disagreement_scores

    logging.getLogger().setLevel(logging.WARNING)  # fairseq tells of every file it opens
    models, config, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoint)], arg_overrides={"data": str(data)}
    )
    model = models[0]
    model.eval()
    task.load_dataset(subset, task_cfg=config.task)
    batches = task.get_batch_iterator(
        task.dataset(subset), max_tokens=4096, required_batch_size_multiple=1
    ).next_epoch_itr(shuffle=False)
    sums = dict.fromkeys(TERMS, 0.0)
    weights = dict.fromkeys(TERMS, 0)
    for sample in batches:
        with torch.no_grad():
            _, extra = model(
                **sample["net_input"], return_head_states=("values", "weights", "outputs")
            )
        for states in (state for layers in extra["head_states"].values() for state in layers):
            scores = disagreement_scores(
                states.values,
                states.weights,
                states.outputs,
                states.query_padding_mask,
                states.key_padding_mask,
            )
            bsz, _, tgt_len, src_len = states.weights.shape
            counts = {
                "subspace": _real(states.key_padding_mask, bsz * src_len),
                "position": bsz,
                "output": _real(states.query_padding_mask, bsz * tgt_len),
            }
            for term in TERMS:
                sums[term] += counts[term] * scores[term].double().log().item()
                weights[term] += counts[term]
    return {
        term: torch.tensor(sums[term] / weights[term], dtype=torch.float64).exp().item()
        for term in TERMS
    }


def table(rows: dict[str, dict]) -> str:
    """Lay out the results of several models.

    Args:
        rows: By the model's name, ``tokenised_bleu``, ``sacrebleu`` and ``heads``, the last
            with a score for each of ``TERMS``.
    """
    width = max(len(name) for name in rows)
    heads = "".join(f"{term:>10}" for term in TERMS)
    lines = [
        f"{'':{width}}{'tokenised':>11}{'sacreBLEU':>11}   exp(D) of the heads",
        f"{'':{width}}{'BLEU':>11}{'':>11}{heads}",
    ]
    for name, row in rows.items():
        scores = "".join(f"{row['heads'][term]:>10.4f}" for term in TERMS)
        lines.append(
            f"{name:{width}}{row['tokenised_bleu']:>11.2f}{row['sacrebleu']:>11.2f}{scores}"
        )
    lines.append("exp(D) rises towards 1 the more the heads differ.")
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """Print the table; scores of heads are kept in a file beside each evaluation."""
    parser = argparse.ArgumentParser(prog="diverse_mha.quickstart", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "evaluations", nargs="+", metavar="NAME=FILE.json", help="what scripts/evaluate.sh wrote"
    )
    args = parser.parse_args(words)
    rows = {}
    for word in args.evaluations:
        name, separator, file = word.rpartition("=")
        if not separator or not Path(file).is_file():
            raise UserError(f"{word}: give NAME=FILE.json, with a file of scripts/evaluate.sh")
        row = json.loads(Path(file).read_text(encoding="utf-8"))
        kept = Path(file).with_suffix(".heads")
        if not kept.exists() or kept.stat().st_mtime < Path(file).stat().st_mtime:
            scores = head_scores(Path(row["checkpoint"]), args.data, row["subset"])
            temporary = kept.with_name(f".{kept.name}.{os.getpid()}.tmp")
            temporary.write_text(json.dumps(scores), encoding="utf-8")
            os.replace(temporary, kept)
        rows[name] = row | {"heads": json.loads(kept.read_text(encoding="utf-8"))}
    print(table(rows))
    return 0


def _real(padding_mask, total: int) -> int:
    """Count the positions that are not padding."""
    return total if padding_mask is None else int((~padding_mask).sum())


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
