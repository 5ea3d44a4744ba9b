"""Times training steps of transformers' models with terms: ``python -m benchmarks.hub``."""

import argparse
import sys
import time

import torch
from transformers import BertConfig, BertForMaskedLM, MarianConfig, MarianMTModel

from benchmarks.report import describe_machine
from benchmarks.rounds import run_rounds, summarise
from diverse_mha.common.errors import add_number, run_cli
from diverse_mha.hub import HeadTerms

BASELINE = "sdpa"
VARIANTS = {
    BASELINE: None,
    "registered, no term": {},
    "Drophead": {"drophead": 0.1},
    "HSIC": {"hsic_weight": 1e-7},
    "disagreement of outputs": {"disagreement": "output", "disagreement_weight": 0.1},
    "disagreement of positions": {"disagreement": "position", "disagreement_weight": 0.1},
    "eager": None,
}
VOCABULARY, HEADS = 8000, 4


def build(name: str, width: int, layers: int):
    """Build a model from a configuration with default dropout."""
    torch.manual_seed(1)
    if name == "BERT":
        config = BertConfig(
            vocab_size=VOCABULARY, hidden_size=width, num_hidden_layers=layers,
            num_attention_heads=HEADS, intermediate_size=4 * width,
        )  # fmt: skip
        return BertForMaskedLM(config)
    sizes = {
        f"{side}_{key}": value
        for side in ("encoder", "decoder")
        for key, value in (("layers", layers), ("attention_heads", HEADS), ("ffn_dim", 4 * width))
    }
    config = MarianConfig(
        vocab_size=VOCABULARY, d_model=width, pad_token_id=0, decoder_start_token_id=0, **sizes
    )
    return MarianMTModel(config)


def trainee(name: str, variant: str, args: argparse.Namespace):
    """Return a function that does one training step (forward, backward, Adam) on a batch."""
    model = build(name, args.width, args.layers).train()
    model.set_attn_implementation("eager" if variant == "eager" else "sdpa")
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    options = VARIANTS[variant]
    terms = None if options is None else HeadTerms(model, **options)

    def step(batch: dict) -> None:
        if terms is None:
            loss = model(**batch).loss
        else:
            with terms.collect(batch) as heads:
                loss = model(**batch).loss
            loss = loss + heads.loss()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


def batches(args: argparse.Namespace):
    """Yield random batches; sentences have from 3/4 ``args.length`` to ``args.length`` tokens."""
    draw = torch.Generator().manual_seed(1)
    shape = (args.sentences, args.length)
    for _ in range(args.warm_up + args.rounds):
        ids = torch.randint(1, VOCABULARY, shape, generator=draw)
        least = max(1, args.length * 3 // 4)
        lengths = torch.randint(least, args.length + 1, (args.sentences, 1), generator=draw)
        real = torch.arange(args.length) < lengths
        labels = ids.masked_fill(~real, -100)
        yield {"input_ids": ids * real, "attention_mask": real.long(), "labels": labels}


def processor_time(step, batch) -> float:
    """Return the seconds of processor time of a step."""
    start = time.process_time()
    step(batch)
    return time.process_time() - start


def main() -> None:
    """Print each other variant's processor time for both models, as a multiple of sdpa's."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    sizes = {"width": 256, "layers": 6, "length": 128, "sentences": 8, "rounds": 12, "warm-up": 2}
    for name, default in sizes.items():
        add_number(parser, name, default, f"{name} of the model, batch or measurement")
    args = parser.parse_args()
    torch.set_num_threads(1)
    drawn = list(batches(args))
    print(describe_machine(torch.device("cpu"), 1), file=sys.stderr)
    print("| training with | Marian | BERT |\n|---|---|---|")
    columns = []
    for name in ("Marian", "BERT"):
        steps = {variant: trainee(name, variant, args) for variant in VARIANTS}
        seconds = run_rounds(steps, drawn, args.warm_up, processor_time)
        columns.append(summarise(seconds, BASELINE))
    for variant in VARIANTS:
        if variant != BASELINE:
            # summarise() returns ratios of speed; this table has ratios of time.
            cells = [
                f"{1 / c[variant]['ratio']:.2f} "
                f"[{1 / c[variant]['ratio_high']:.2f}, {1 / c[variant]['ratio_low']:.2f}]"
                for c in columns
            ]
            print(f"| {variant} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    run_cli(main)
