"""Measures similarity and importance of the heads of a Hugging Face translation model.

    python examples/hugging_face.py MODEL source.txt target.txt heads.png

MODEL is a folder, such as one of `diverse-mha export --format transformers`, or a name on the hub.
The text has one sentence per line. Needs transformers and matplotlib.
"""

import logging
import sys
from itertools import combinations
from pathlib import Path
from statistics import mean

import torch

from diverse_mha.measures.similarity import cka


def projections(model):
    """Yield each attention's name, output projection and number of heads."""
    for name, module in model.named_modules():
        if hasattr(module, "out_proj") and hasattr(module, "num_heads"):  # Marian, FSMT, BART
            yield name, module.out_proj, module.num_heads
        elif hasattr(getattr(module, "self", None), "num_attention_heads"):  # BERT
            yield name, module.output.dense, module.self.num_attention_heads


@torch.no_grad()
def measure(model, batches):
    """Yield each attention's name, mean CKA over head pairs, and each head's rise of the loss.

    The rise of the loss is that without the head. Batches must have no padding.
    """
    rows, loss = [], lambda: mean(float(model(**batch).loss) for batch in batches)
    for name, projection, heads in projections(model):
        rows.clear()
        hook = projection.register_forward_pre_hook(lambda _, args: rows.append(args[0]))
        before, rises = loss(), []
        hook.remove()
        outputs = torch.cat([x.flatten(0, -2) for x in rows]).chunk(heads, dim=1)
        for columns in projection.weight.chunk(heads, dim=1):
            kept = columns.clone()
            columns.zero_()
            rises.append(loss() - before)
            columns.copy_(kept)
        yield name, mean(cka(x, y) for x, y in combinations(outputs, 2)), rises


def main(name, source, target, picture):
    """Print both measures, and plot the rise of the loss."""
    import matplotlib.pyplot as plt
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    logging.disable(logging.INFO)  # fairseq enables all loggers
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForSeq2SeqLM.from_pretrained(name).eval()
    texts = (Path(file).read_text(encoding="utf-8").splitlines() for file in (source, target))
    batches = [
        tokenizer(x, text_target=y, return_tensors="pt") for x, y in zip(*texts, strict=True)
    ]
    for batch in batches:  # otherwise FSMT uses the source as decoder input
        batch["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(batch["labels"])
    results = list(measure(model, batches))
    for name, similarity, rises in results:
        print(f"{name}: CKA {similarity:.3f}", *(f"{rise:+.4f}" for rise in rises))
    plt.imshow([rises for *_, rises in results])
    plt.yticks(range(len(results)), [name for name, *_ in results])
    plt.colorbar(label="rise of the loss without a head, nats")
    plt.savefig(picture, bbox_inches="tight")


if __name__ == "__main__":
    if len(sys.argv) != 5 or "--help" in sys.argv:
        sys.exit(print(__doc__) if {"-h", "--help"} & set(sys.argv) else __doc__)
    main(*sys.argv[1:])
