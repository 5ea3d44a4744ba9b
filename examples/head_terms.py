"""Trains a small translation model with a Hugging Face Trainer, without and with terms.

    python examples/head_terms.py [UPDATES]

It prints the losses after UPDATES updates (default 200) on the demo corpus, and how much the heads'
outputs differ: CKA (lower = more diverse) and disagreement D (higher = more diverse). Needs
transformers and accelerate.
"""

import re
import sys
import tempfile

import torch
from transformers import MarianConfig, MarianMTModel, Trainer, TrainingArguments

from diverse_mha.corpora.demo import sentence_pairs
from diverse_mha.hub import HeadTerms

PAD, END = 0, 1
WORD = re.compile(r"\w+|[^\w\s]")
VARIANTS = {
    "baseline": {},
    "cka": {"cka_weight": 0.1},
    "output": {"disagreement": "output", "disagreement_weight": 0.1},
    "drophead": {"drophead": 0.1},
}


def examples(count):
    """Return token ids of sentence pairs, and the size of the joint vocabulary."""
    words = {"<pad>": PAD, "</s>": END}

    def ids(text):
        return [*(words.setdefault(word, len(words)) for word in WORD.findall(text)), END]

    rows = [
        {"input_ids": ids(source), "labels": ids(target)}
        for source, target, _ in sentence_pairs(count, seed=1)
    ]
    return rows, len(words)


def collate(rows):
    """Pad a batch."""

    def pad(name, value):
        lines = [torch.tensor(row[name]) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(lines, batch_first=True, padding_value=value)

    source = pad("input_ids", PAD)
    return {"input_ids": source, "attention_mask": source != PAD, "labels": pad("labels", -100)}


def build(words):
    """Build the model."""
    sizes = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 128))
    }
    config = MarianConfig(
        vocab_size=words, d_model=64, pad_token_id=PAD, eos_token_id=END,
        decoder_start_token_id=PAD, **sizes,
    )  # fmt: skip
    return MarianMTModel(config)


@torch.no_grad()
def similarity(model, batch):
    """Return the heads' mean CKA, and the disagreement of their outputs."""
    options = {"cka_weight": 1.0, "disagreement": "output", "disagreement_weight": 0}
    with HeadTerms(model.eval(), **options) as terms, terms.collect(batch) as heads:
        model(**batch)
    count = len(terms.components)
    return heads.values["cka"] / count, heads.values["disagreement_output"] / count


def main(updates):
    """Train the variants, and print a line for each."""
    data, words = examples(3400)
    print("            loss  eval loss    CKA       D")
    for name, options in VARIANTS.items():
        torch.manual_seed(1)
        model = build(words)
        with tempfile.TemporaryDirectory() as folder, HeadTerms(model, **options) as terms:
            arguments = TrainingArguments(
                folder, max_steps=updates, per_device_train_batch_size=32, learning_rate=4e-3,
                logging_steps=min(updates, 20), save_strategy="no", report_to=[], disable_tqdm=True,
            )  # fmt: skip
            trainer = terms.trainer(Trainer)(
                model=model,
                args=arguments,
                train_dataset=data[200:],
                eval_dataset=data[:200],
                data_collator=collate,
            )
            trainer.train()
            loss = [log["loss"] for log in trainer.state.log_history if "loss" in log][-1]
            evaluated = trainer.evaluate()["eval_loss"]
        cka, disagreement = similarity(model, collate(data[:200]))
        print(f"{name:9} {loss:7.3f} {evaluated:10.3f} {cka:6.3f} {disagreement:7.3f}")


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv) or len(sys.argv) > 2:
        sys.exit(print(__doc__) if len(sys.argv) == 2 else __doc__)
    main(int(sys.argv[1]) if len(sys.argv) == 2 else 200)
