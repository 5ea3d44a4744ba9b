"""Beam search against stock fairseq: ``python -m benchmarks.decoding``.

Every variant translates the same synthetic batch in each round, by fairseq's own
``SequenceGenerator``, through the incremental state. Hypotheses are held to one
length, so that models without training do the same number of steps. A variant
with stock's parameters must give hypotheses of stock's scores in float32, or no figure is printed.
"""

import argparse
import sys
from argparse import Namespace
from collections.abc import Sequence
from statistics import median

import torch
from fairseq.models.transformer import DEFAULT_MAX_TARGET_POSITIONS
from fairseq.sequence_generator import SequenceGenerator

from benchmarks.arguments import (
    add_models,
    add_output,
    add_rounds,
    carry_out,
    check_models,
    result_of,
)
from benchmarks.batches import make_batches, rounds_of, stand_in_task
from benchmarks.equality import CheckError
from benchmarks.report import describe_machine, format_table, ratio
from benchmarks.rounds import clock_for, run_rounds
from benchmarks.shapes import SHAPES, LanguageModelShape
from benchmarks.training import DTYPES, build_model, copy_shared
from benchmarks.variants import STOCK, VARIANTS
from diverse_mha.common.arguments import OneLineParser, add_number
from diverse_mha.common.errors import UserError, run_cli

# Variants whose models differ: terms of a loss play no part in decoding.
MODELS = "plain,em-1-2,em-all-encoder,coda"
TOLERANCE = 1e-4  # difference of two hypotheses' scores, in nats a token, that rounding may make


def build_parser() -> argparse.ArgumentParser:
    """Declare the options."""
    parser = OneLineParser(
        prog="benchmarks.decoding",
        description="Time fairseq's beam search with this package's models against its own "
        "transformer of the same shape, untrained, in interleaved rounds.",
    )
    translating = [n for n, shape in SHAPES.items() if not isinstance(shape, LanguageModelShape)]
    add_models(parser, variants=MODELS, shapes=translating)
    add_number(parser, "beam", 5, "size of the beam")
    add_number(parser, "sentences", 16, "sentences in a batch")
    add_number(parser, "length", 30, "tokens of every hypothesis")
    add_rounds(parser, rounds=10, warm_up=1)
    add_output(parser)
    return parser


class Decoder:
    """A variant's model in fairseq's beam search, with stock's parameters where they fit."""

    def __init__(self, name: str, task: Namespace, stock: dict | None, args: argparse.Namespace):
        torch.manual_seed(args.seed)
        self.model = build_model(VARIANTS[name], SHAPES[args.shape].options(), task)
        self.like_stock = stock is None or copy_shared(stock, self.model)
        self.parameters = self.model.state_dict()
        self.model.to(args.device).eval()
        self.model.make_generation_fast_(beamable_mm_beam_size=None, need_attn=False)
        self._generator = SequenceGenerator(
            [self.model],
            task.target_dictionary,
            beam_size=args.beam,
            max_len_a=0,
            max_len_b=args.length,
            min_len=args.length,
        )

    def translate(self, batch: dict) -> list[list[dict]]:
        """Search; for every sentence the hypotheses, best first."""
        return self._generator.generate([None], batch)


def disagreement(own: list[list[dict]], stock: list[list[dict]]) -> str | None:
    """Say where two results of a search differ by more than rounding, or None."""
    for sentence, (ours, theirs) in enumerate(zip(own, stock, strict=True)):
        for ranked, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            apart = abs(float(a["score"]) - float(b["score"]))
            if not apart <= TOLERANCE:
                return f"hypothesis {ranked} of sentence {sentence}: scores differ by {apart:.2g}"
    return None


def measure(args: argparse.Namespace) -> dict:
    """Check the variants, time them, and return everything."""
    torch.set_num_threads(args.threads)
    shape, device = SHAPES[args.shape], args.device
    machine = describe_machine(device, args.threads)
    task = stand_in_task(shape.vocabulary)
    decoders: dict[str, Decoder] = {}
    for name in args.variants:
        stock = decoders[STOCK].parameters if decoders else None
        decoders[name] = Decoder(name, task, stock, args)
    tokens = max(shape.batch_tokens, 64 * args.sentences)
    drawn = rounds_of(
        lambda count: make_batches(count, shape.vocabulary, tokens, shape.mean_length, args.seed),
        args.rounds,
        args.warm_up,
        device,
    )
    inputs = ("src_tokens", "src_lengths")
    batches = [
        {"net_input": {key: batch["net_input"][key][: args.sentences].to(device) for key in inputs}}
        for batch in drawn
    ]
    expected = decoders[STOCK].translate(batches[0])
    for name, decoder in decoders.items():
        fault = decoder.like_stock and disagreement(decoder.translate(batches[0]), expected)
        if fault:
            raise CheckError(f"{name}: {fault}")
    for decoder in decoders.values():
        decoder.model.to(DTYPES[args.precision])
    steps = {name: decoder.translate for name, decoder in decoders.items()}
    seconds = run_rounds(steps, batches, args.warm_up, clock_for(device))
    # A batch of long sentences has fewer of them than was asked for.
    sentences = [len(batch["net_input"]["src_lengths"]) for batch in batches[args.warm_up :]]
    rows = {
        name: {
            "text": VARIANTS[name].text,
            "sentences_per_second": median(n / s for n, s in zip(sentences, times, strict=True)),
        }
        for name, times in seconds.items()
    }
    return result_of(args, machine, seconds, rows)


def format_markdown(result: dict) -> str:
    """Lay out a result as a table."""
    options = result["options"]
    title = (
        f"Beam search, shape {options['shape']}, beam {options['beam']}, {options['sentences']} "
        f"sentences a batch at most, hypotheses of {options['length']} tokens"
    )
    rows = [
        (f"`{name}`", row["text"], f"{row['sentences_per_second']:.3g}", ratio(row))
        for name, row in result["variants"].items()
    ]
    headings = ("variant", "what", "sentences/s", "ratio to stock (95 %)")
    return format_table(title, headings, rows, result)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and return the exit code."""
    args = build_parser().parse_args(arguments)
    check_models(args, VARIANTS)
    if args.length >= DEFAULT_MAX_TARGET_POSITIONS:  # one is that of the end symbol
        raise UserError(
            f"--length {args.length}: must be below {DEFAULT_MAX_TARGET_POSITIONS}, the positions "
            "that the models have"
        )
    size = f"--sentences {args.sentences}"
    return carry_out(lambda: measure(args), format_markdown, args.output, size)


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
