"""Beam search against stock fairseq: ``python -m diverse_mha.benchmark.decoding``.

Every variant translates the same synthetic batch in each round, by fairseq's own
``SequenceGenerator``, through the incremental state. Hypotheses are held to one
length, so that models without training do the same number of steps. A variant
with stock's parameters must give stock's hypotheses in float32, or no figure is printed.
"""

import argparse
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict

import torch
from fairseq.sequence_generator import SequenceGenerator
from tqdm import tqdm

from diverse_mha.benchmark.batches import make_batches, stand_in_task
from diverse_mha.benchmark.checks import CheckError
from diverse_mha.benchmark.memory import to_device
from diverse_mha.benchmark.options import add_numbers, add_place, carry_out, check_output
from diverse_mha.benchmark.report import describe_machine, where
from diverse_mha.benchmark.rounds import clock_for, run_rounds
from diverse_mha.benchmark.shapes import SHAPES, Shape
from diverse_mha.benchmark.summary import summarise
from diverse_mha.benchmark.training import DTYPES, build_model, find_device
from diverse_mha.benchmark.variants import STOCK, VARIANTS, choose
from diverse_mha.common.arguments import OneLineParser
from diverse_mha.common.errors import run_cli

MODELS = "plain,em-1-2,em-all-encoder,coda"
"""Variants whose models differ: terms of a loss play no part in decoding."""

TOLERANCE = 1e-4
"""Difference of two hypotheses' scores, in nats a token, that rounding may make."""


def build_parser() -> argparse.ArgumentParser:
    """Declare the options."""
    parser = OneLineParser(
        prog="diverse_mha.benchmark.decoding",
        description="Time fairseq's beam search with this package's models against its own "
        "transformer of the same shape, untrained, in interleaved rounds.",
    )
    parser.add_argument("--shape", default="small", choices=SHAPES, help="default: small")
    parser.add_argument("--variants", default=MODELS, metavar="NAMES", help=f"default: {MODELS}")
    add_numbers(
        parser,
        {
            "beam": (5, "size of the beam"),
            "sentences": (16, "sentences in a batch"),
            "length": (30, "tokens of every hypothesis"),
            "rounds": (10, "rounds that count"),
            "threads": (torch.get_num_threads(), "threads on the CPU"),
        },
    )
    add_numbers(
        parser,
        {"warm-up": (1, "rounds before them"), "seed": (1, "seed of parameters and batches")},
        least=0,
    )
    add_place(parser)
    return parser


def check_options(args: argparse.Namespace) -> None:
    """Refuse impossible options.

    Raises:
        UserError: naming the option, its value and what would do.
    """
    args.variants = choose(args.variants)
    args.device = find_device(args.device)
    check_output(args.output)


class Decoder:
    """A model in fairseq's beam search.

    Args:
        name: the variant.
        shape: shape of the model.
        task: see ``stand_in_task``.
        stock: parameters to start from, where names and shapes agree; or None.
        args: options of the command.
    """

    def __init__(
        self,
        name: str,
        shape: Shape,
        task: Namespace,
        stock: dict | None,
        args: argparse.Namespace,
    ):
        torch.manual_seed(args.seed)
        model = build_model(VARIANTS[name], shape.options(), task)
        own = model.state_dict()
        shared = {k: t for k, t in (stock or {}).items() if k in own and t.shape == own[k].shape}
        model.load_state_dict(shared, strict=False)
        self.like_stock = stock is None or len(shared) == len(own) == len(stock)
        self.parameters = model.state_dict()
        model.to(args.device).eval()
        self._model = model
        model.make_generation_fast_(beamable_mm_beam_size=None, need_attn=False)
        self._generator = SequenceGenerator(
            [model],
            task.target_dictionary,
            beam_size=args.beam,
            max_len_a=0,
            max_len_b=args.length,
            min_len=args.length,
        )

    def cast(self, dtype: torch.dtype) -> None:
        """Go on in another precision."""
        self._model.to(dtype)

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
    """Check the variants, time them, and return everything.

    Raises:
        CheckError: if a variant with stock's parameters gives other hypotheses.
    """
    torch.set_num_threads(args.threads)
    shape, device = SHAPES[args.shape], args.device
    machine = describe_machine(device, args.threads)
    task = stand_in_task(shape.vocabulary)
    decoders: dict[str, Decoder] = {}
    for name in args.variants:
        stock = decoders[STOCK].parameters if decoders else None
        decoders[name] = Decoder(name, shape, task, stock, args)
    batches = [
        to_device(_first_sentences(batch, args.sentences), device)
        for batch in make_batches(
            args.warm_up + args.rounds,
            shape.vocabulary,
            max(shape.batch_tokens, 64 * args.sentences),
            shape.mean_length,
            args.seed,
        )
    ]
    expected = decoders[STOCK].translate(batches[0])
    for name, decoder in decoders.items():
        fault = decoder.like_stock and disagreement(decoder.translate(batches[0]), expected)
        if fault:
            raise CheckError(f"{name}: {fault}")
    for decoder in decoders.values():
        decoder.cast(DTYPES[args.precision])
    seconds = run_rounds(
        {name: decoder.translate for name, decoder in decoders.items()},
        batches,
        args.warm_up,
        clock_for(device),
        lambda name, outcome: None,
        lambda sequence, total: tqdm(sequence, desc="time", total=total, leave=False, disable=None),
    )
    summaries = summarise(seconds, STOCK, args.seed)
    return {
        "options": {**vars(args), "device": device.type, "output": None},
        "model": asdict(shape),
        "machine": machine,
        "variants": {
            name: {
                "text": VARIANTS[name].text,
                "sentences_per_second": args.sentences / summaries[name].median_seconds,
                **asdict(summaries[name]),
                "seconds": seconds[name],
            }
            for name in args.variants
        },
    }


def _first_sentences(batch: dict, count: int) -> dict:
    """Keep the first sentences of a batch: what a search needs of it."""
    net = batch["net_input"]
    kept = {key: net[key][:count] for key in ("src_tokens", "src_lengths")}
    return {"net_input": kept}


def format_markdown(result: dict) -> str:
    """Lay out a result as a heading and a table."""
    options = result["options"]
    lines = [
        f"Beam search, shape {options['shape']}, beam {options['beam']}, {options['sentences']} "
        f"sentences a batch, hypotheses of {options['length']} tokens, "
        f"{options['precision']}, {where(result['machine'])}, "
        f"torch {result['machine']['versions']['torch']}; "
        f"{options['rounds']} interleaved rounds after {options['warm_up']} of warm-up.",
        "",
        "| variant | what | sentences/s | ratio to stock (95 %) |",
        "| --- | --- | ---: | ---: |",
    ]
    lines += [
        f"| `{name}` | {row['text']} | {row['sentences_per_second']:.3g} | "
        f"{row['ratio']:.3f} ({row['ratio_low']:.3f}-{row['ratio_high']:.3f}) |"
        for name, row in result["variants"].items()
    ]
    return "\n".join(lines)


def run(arguments: Sequence[str]) -> int:
    """Run the benchmark and return the exit code."""
    args = build_parser().parse_args(arguments)
    check_options(args)
    return carry_out(lambda: measure(args), format_markdown, args.output)


if __name__ == "__main__":
    run_cli(lambda: run(sys.argv[1:]))
