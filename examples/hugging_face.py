"""Heads of a Hugging Face translation model: how similar they are, and what the loss is without.

    python examples/hugging_face.py MODEL source.txt target.txt heads.png

MODEL is a folder, such as one of `diverse-mha export --format transformers`, or a name on the hub.
The text has a sentence a line. Needs transformers and matplotlib.
"""

import logging
import sys
from itertools import combinations
from statistics import mean

import torch

from diverse_mha.measures.similarity import cka


def projections(model):
    """Return by name the projection of each attention's heads, and how many heads there are."""
    found = {}
    for name, module in model.named_modules():
        if hasattr(module, "out_proj") and hasattr(module, "num_heads"):  # Marian, FSMT, BART
            found[name] = module.out_proj, module.num_heads
        elif hasattr(getattr(module, "self", None), "num_attention_heads"):  # BERT
            found[name] = module.output.dense, module.self.num_attention_heads
    return found


@torch.no_grad()
def similarity(model, batches):
    """Return by attention the mean CKA over pairs of heads; batches have no padding."""
    found = {}
    for name, (projection, heads) in projections(model).items():
        kept = []  # (positions, heads, width) a batch
        hook = projection.register_forward_pre_hook(
            lambda _, args, heads=heads, kept=kept: kept.append(
                args[0].unflatten(-1, (heads, -1)).flatten(0, -3)
            )
        )
        for batch in batches:
            model(**batch)
        hook.remove()
        x = torch.cat(kept)
        found[name] = mean(cka(x[:, i], x[:, j]) for i, j in combinations(range(heads), 2))
    return found


@torch.no_grad()
def importance(model, batches):
    """Return by attention and head the rise of the mean loss when the head's output is zero."""

    def loss():
        return mean(float(model(**batch).loss) for batch in batches)

    before, rises = loss(), {}
    for name, (projection, heads) in projections(model).items():
        rises[name] = []
        for columns in projection.weight.chunk(heads, dim=1):
            kept = columns.clone()
            columns.zero_()
            rises[name].append(loss() - before)
            columns.copy_(kept)
    return rises


def main(name, source, target, picture):
    """Print both measures, and draw the second."""
    import matplotlib.pyplot as plt
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    logging.getLogger().setLevel(logging.WARNING)  # fairseq lets all loggers speak
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForSeq2SeqLM.from_pretrained(name).eval()
    lines = zip(open(source, encoding="utf-8"), open(target, encoding="utf-8"), strict=True)
    batches = [tokenizer(a.strip(), text_target=b.strip(), return_tensors="pt") for a, b in lines]
    for batch in batches:  # FSMT takes the source for them otherwise
        batch["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(batch["labels"])
    alike, rises = similarity(model, batches), importance(model, batches)
    for attention, heads in rises.items():
        print(f"{attention}: CKA {alike[attention]:.3f}", *(f"{rise:+.4f}" for rise in heads))
    plt.imshow(list(rises.values()))
    plt.yticks(range(len(rises)), rises)
    plt.colorbar(label="rise of the loss without a head, nats")
    plt.savefig(picture, bbox_inches="tight")


if __name__ == "__main__":
    main(*sys.argv[1:])
