"""``diverse-mha align``: word alignments from one head of the attention to the source."""

import argparse
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq.data import data_utils
from fairseq.dataclass.configs import GenerationConfig
from torch import Tensor

from diverse_mha.analysis.checkpoints import Loaded, head_states, iterate_batches, load
from diverse_mha.common.arguments import add_cpu, add_number
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_text
from diverse_mha.common.places import check_file
from diverse_mha.common.plugins import add_user_dir, import_plugin
from diverse_mha.common.tables import Layout, to_text
from diverse_mha.corpora.text import read_lines
from diverse_mha.evaluation.deploy.prepared_text import preparation
from diverse_mha.evaluation.translation import subwords_of
from diverse_mha.measures.alignment import (
    Links,
    agreement,
    alignment_error,
    best_sources,
    word_places,
)

_LINK = re.compile(r"(\d+)(-|p)(\d+)")
AGREEMENT = "how often the head chooses the same source word as the others (Kumar and Byrne 2002)"


class Aligned(NamedTuple):
    """A sentence of the split."""

    number: int  # of its line, from 0
    sources: int  # words
    choices: Tensor  # (heads and layer averages, target words): source words
    target: str  # its words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha align``."""
    parser.allow_abbrev = False
    parser.epilog = (
        "example:\n  diverse-mha align runs/mine/checkpoint_best.pt data/mine/bin > alignments"
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a translation model")
    parser.add_argument("data", metavar="DATA", help="folder that fairseq-preprocess wrote")
    add_number(parser, "max-tokens", 4000, "tokens in a batch")
    add_cpu(parser)
    add_user_dir(parser)
    what = parser.add_argument_group("what to align")
    what.add_argument("--subset", default="valid", help="split to align (default: valid)")
    what.add_argument(
        "--translate", metavar="FILE",
        help="align the model's own translations (beam 5), and write them to FILE",
    )  # fmt: skip
    head = parser.add_argument_group("which head")
    head.add_argument(
        "--gold", metavar="FILE",
        help="choose the head with the lowest error rate (AER) on these true alignments of the "
        "split: a line a sentence, words from 0, such as 0-0 1-2, possible links 1p2",
    )  # fmt: skip
    add_number(head, "layer", None, "use a head of this layer, from 1, with --head")
    add_number(head, "head", None, "use this head, from 1 (default: by --gold, or by agreement)")
    head.add_argument(
        "--report", action="store_true", help="print a table of all heads, not the alignments"
    )


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha align``."""
    if (args.layer is None) != (args.head is None):
        raise UserError("--layer and --head belong together; give both, or neither")
    if args.translate and args.gold:
        raise UserError(f"--gold {args.gold}: is for the given target; leave out --translate")
    if args.translate:
        check_file("--translate", args.translate)
    gold = None if args.gold is None else read_gold(Path(args.gold))
    import_plugin(args.user_dir)
    logging.getLogger().setLevel(logging.WARNING)  # fairseq tells of every file it opens
    loaded = load(args.checkpoint, args.data, cpu=args.cpu)
    layers, heads = _shape(loaded, args)
    found = sorted(align(loaded, args), key=lambda one: one.number)
    count = len(loaded.task.dataset(args.subset))
    if len(found) < count:
        said = f"note: {count - len(found)} of {count} sentences are longer than the model reads"
        print(f"{said}, and have no alignment", file=sys.stderr)
    errors = None if gold is None else _errors(found, gold, count, args.gold)
    agreed = agreement(torch.cat([one.choices[: layers * heads] for one in found], dim=1)).tolist()
    if args.layer is None:
        values = agreed if errors is None else [-error for error, _, _ in errors[: layers * heads]]
        chosen = max(range(layers * heads), key=values.__getitem__)
    else:
        chosen = (args.layer - 1) * heads + args.head - 1
    if args.report:
        print(to_text(report(layers, heads, agreed, errors, chosen, args)))
        return 0
    quality = (
        f"agreement {agreed[chosen]:.3f}" if errors is None else f"AER {errors[chosen][0]:.3f}"
    )
    where = f"layer {chosen // heads + 1}, head {chosen % heads + 1}"
    print(f"aligned by {where} ({quality})", file=sys.stderr)
    lines = [""] * count
    texts = [""] * count
    for one in found:
        lines[one.number] = " ".join(f"{s}-{t}" for s, t in sorted(links(one, chosen)))
        texts[one.number] = one.target
    if args.translate:
        write_text(Path(args.translate), "".join(f"{text}\n" for text in texts))
    print("\n".join(lines))
    return 0


def _shape(loaded: Loaded, args: argparse.Namespace) -> tuple[int, int]:
    """Layers and heads of the attention to the source; refuses what is not there."""
    heads = loaded.model.heads.get("cross")
    if heads is None:
        raise UserError(f"{loaded.path}: has no attention to a source; give a translation model")
    layers = len(loaded.model.decoder.layers)
    for name, most in (("layer", layers), ("head", heads)):
        if (getattr(args, name) or 0) > most:
            raise UserError(f"--{name} {getattr(args, name)}: {loaded.path} has {most} {name}s")
    return layers, heads


def read_gold(path: Path) -> list[tuple[Links, Links]]:
    """Read sure and possible links of every line of a file in Pharaoh format."""
    if not path.is_file():
        raise UserError(f"--gold {path}: no such file; give alignments such as 0-0 1-2")
    found = []
    for number, line in enumerate(read_lines(path), 1):
        sides: dict[str, Links] = {"-": set(), "p": set()}
        for word in line.split():
            link = _LINK.fullmatch(word)
            if not link:
                raise UserError(f"{path}: line {number}: {word!r} is no link; write 0-0 or 1p2")
            sides[link[2]].add((int(link[1]), int(link[3])))
        found.append((sides["-"], sides["p"]))
    return found


def links(sentence: Aligned, row: int) -> Links:
    """Return the links of a head, or of a layer's average."""
    return {(source, word) for word, source in enumerate(sentence.choices[row].tolist())}


def _errors(
    found: list[Aligned], gold: list[tuple[Links, Links]], count: int, name: str
) -> list[tuple[float, float, float]]:
    if len(gold) != count:
        raise UserError(f"--gold {name}: has {len(gold)} lines, the split {count} sentences")
    for one in found:
        for source, target in set().union(*gold[one.number]):
            if source >= one.sources or target >= one.choices.size(1):
                raise UserError(
                    f"{name}: line {one.number + 1}: link {source}-{target} is outside the "
                    f"sentence of {one.sources} and {one.choices.size(1)} words; count from 0"
                )
    sure, possible = ([gold[one.number][side] for one in found] for side in (0, 1))
    rows = range(found[0].choices.size(0))
    return [alignment_error((links(one, row) for one in found), sure, possible) for row in rows]


def align(loaded: Loaded, args: argparse.Namespace) -> Iterator[Aligned]:
    """Align the sentences of a split by every head, and by the averages over each layer's heads."""
    task, pad = loaded.task, loaded.model.decoder.padding_idx
    made = preparation(Path(args.data)).post_process
    languages = task.cfg.source_lang, task.cfg.target_lang
    kinds = [made or subwords_of(Path(args.data, f"dict.{code}.txt")) for code in languages]
    generator = None
    batches = iterate_batches(loaded, args.subset, max_tokens=args.max_tokens, label="aligning")
    for sample in batches:
        if args.translate:
            generator = generator or task.build_generator([loaded.model], GenerationConfig(beam=5))
            _translate(loaded, generator, sample, pad)
        states = head_states(loaded.model, sample, {"cross": ("weights",)})["cross"]
        weights = [layer.weights.float() for layer in states]  # (B, H, T, S) each
        every = torch.cat([*weights, *(w.mean(dim=1, keepdim=True) for w in weights)], dim=1).cpu()
        for row, number in enumerate(sample["id"].tolist()):
            source, target = sample["net_input"]["src_tokens"][row], sample["target"][row]
            sides, words = [], []
            for tokens, dictionary, kind in (
                (source.tolist(), task.source_dictionary, kinds[0]),
                (target.tolist(), task.target_dictionary, kinds[1]),
            ):
                real = [at for at, x in enumerate(tokens) if x not in (pad, dictionary.eos())]
                symbols = [dictionary[tokens[at]] for at in real]
                words.append(word_places(symbols, kind))
                sides.append((real, symbols))
            (of_source, _), (of_target, symbols) = sides
            if not of_source or not of_target:
                yield Aligned(number, 0, torch.zeros(every.size(1), 0, dtype=torch.long), "")
                continue
            own = every[row][:, of_target][:, :, of_source]
            text = data_utils.post_process(" ".join(symbols), kinds[1] or "none")
            choices = best_sources(own, *words)
            yield Aligned(number, max(words[0]) + 1, choices, text)


def _translate(loaded: Loaded, generator: Any, sample: dict, pad: int) -> None:
    """Replace the target of a batch by the model's translation."""
    found = loaded.task.inference_step(generator, [loaded.model], sample)
    eos = loaded.task.target_dictionary.eos()
    tokens = [best[0]["tokens"].long() for best in found]
    sample["target"] = data_utils.collate_tokens(tokens, pad, eos)
    shifted = data_utils.collate_tokens(tokens, pad, eos, move_eos_to_beginning=True)
    sample["net_input"]["prev_output_tokens"] = shifted


def report(
    layers: int,
    heads: int,
    agreed: list[float],
    errors: list[tuple[float, float, float]] | None,
    chosen: int,
    args: argparse.Namespace,
) -> Layout:
    """Lay out every head and the averages over each layer's heads."""
    names = [(str(at // heads + 1), str(at % heads + 1)) for at in range(layers * heads)]
    names += [(str(layer + 1), "average") for layer in range(layers)]
    lines = []
    for row, name in enumerate(names):
        cells = [f"{agreed[row]:.3f}" if row < len(agreed) else "-"]
        cells += [] if errors is None else [f"{value:.3f}" for value in errors[row]]
        lines.append((*name, *cells, "chosen" if row == chosen else ""))
    headings = ["layer", "head", "agreement"]
    headings += [] if errors is None else ["AER", "precision", "recall"]
    notes = [f"agreement: {AGREEMENT}"]
    notes += [] if errors is None else ["AER: 0 to 1, lower is better (Och and Ney 2003)"]
    title = f"Alignments of {args.subset} by the heads of the attention to the source"
    return Layout(title, (*headings, ""), tuple(lines), tuple(notes), names=2)
