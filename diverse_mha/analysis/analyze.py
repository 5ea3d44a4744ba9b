"""``diverse-mha analyze``: similarity, entropy and importance of a checkpoint's heads."""

import argparse
import importlib.util
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from diverse_mha.analysis.against import AgainstMeter, check_same_data
from diverse_mha.analysis.heads import HeadModel, is_heads_file, save_heads
from diverse_mha.analysis.importance import measure_importance
from diverse_mha.analysis.labels import short_names
from diverse_mha.analysis.report import format_tables, write_figures, write_numbers
from diverse_mha.analysis.results import (
    ABLATION,
    GRADIENT,
    Analysis,
    Content,
    Model,
    Sentence,
    to_json,
)
from diverse_mha.analysis.similarity import HeadsMeter, summarise
from diverse_mha.analysis.sites import DEFAULT_MEASURES, MEASURES, Selection
from diverse_mha.analysis.view import take_sentence
from diverse_mha.attention.core import COMPONENTS
from diverse_mha.common.errors import UserError, add_cpu, add_number
from diverse_mha.common.files import check_no_checkpoints, check_output_file, write_json
from diverse_mha.common.machine import versions
from diverse_mha.common.options import parse_layers, parse_names
from diverse_mha.common.plugins import add_user_dir, import_plugin
from diverse_mha.common.progress import hide_log
from diverse_mha.common.ranges import SHARE
from diverse_mha.corpora.text import read_lines
from diverse_mha.evaluation.opener import (
    Source,
    add_text,
    hash_of,
    named_file,
    open_heads,
    read_source,
)
from diverse_mha.evaluation.outputs import add_force, check_replaceable, json_with
from diverse_mha.evaluation.protocol import Adapter, AnyAdapter, Batch, OwnSite
from diverse_mha.measures.similarity import THRESHOLD

#: Libraries that the figures and the report need.
LIBRARIES = ("matplotlib", "jinja2")
WRITTEN = ("layers.csv", "heads.csv", "report.html")  # files written beside scores.json
SENTENCES = 10  # default number of sentences in the report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha analyze``."""
    parser.epilog = (
        "examples:\n  diverse-mha analyze runs/mine/checkpoint_best.pt data/mine/bin --output heads"
        "\n  diverse-mha analyze models/marian --text dev.de --target dev.en --output heads"
    )
    parser.add_argument(
        "checkpoints", nargs="+", metavar="MODEL",
        help="checkpoint files: models of this package, or fairseq's transformer, transformer_lm; "
        "after them DATA, the folder that fairseq-preprocess wrote. With --text: folders of "
        "transformers",
    )  # fmt: skip
    add_text(parser)
    what = parser.add_argument_group("what to measure")
    what.add_argument("--subset", help="split of DATA to run (default: valid)")
    what.add_argument(
        "--measures", default=",".join(DEFAULT_MEASURES),
        help=f"comma list of {', '.join(MEASURES)} (default: %(default)s)",
    )  # fmt: skip
    what.add_argument(
        "--importance-of", choices=["zero", "mean"],
        help="what replaces a head's output for --measures importance (default: zero)",
    )  # fmt: skip
    what.add_argument(
        "--components", help="comma list of encoder, cross, decoder (default: all of the model)"
    )
    what.add_argument(
        "--layers", default="all", help="all, last, or numbers from 1 such as 1,3 (default: all)"
    )
    what.add_argument(
        "--threshold", type=SHARE.parse_float, default=THRESHOLD, metavar="X",
        help="share of the variance that SVCCA keeps (default: %(default)s)",
    )  # fmt: skip
    what.add_argument(
        "--against", metavar="MODEL",
        help="also compare each model's last layers with the last layers of this model, such as "
        "a single-head model (Yun et al. 2021, Table 2)",
    )  # fmt: skip
    results = parser.add_argument_group("results")
    results.add_argument(
        "--output", metavar="FOLDER",
        help="also write numbers, figures and report.html; a name that ends in .json gets only "
        "the numbers",
    )  # fmt: skip
    add_force(results)
    results.add_argument(
        "--sentences", metavar="N|FILE",
        help="sentences that the report shows with the attention of single heads: the first N of "
        f"the split (default: {SENTENCES}), or the lines of a file; the model translates each "
        "line, unless a translation follows after a tab",
    )  # fmt: skip
    results.add_argument(
        "--save-heads", metavar="FILE.npz",
        help="write attention weights, outputs, logits, queries, keys and values of every layer "
        "and head for the lines of --sentences FILE, as arrays such as cross.weights.1",
    )  # fmt: skip
    add_number(parser, "max-tokens", 4000, "tokens in a batch")
    add_cpu(parser)
    add_user_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Analyze every checkpoint, print the tables and write the output."""
    output = Path(args.output) if args.output else None
    folder = output if output is not None and output.suffix != ".json" else None
    selection = read_selection(args, folder is not None)
    source = read_source(args, args.checkpoints)
    if output is not None:  # check before the analysis, which takes minutes
        (check_output_file if folder is None else check_no_checkpoints)("--output", output)
        check_replaceable(
            "--output", output if folder is None else folder / "scores.json",
            is_own=json_with("subset", "data", "models"),
            beside=[] if folder is None else [folder / name for name in WRITTEN],
            inputs=[*args.checkpoints, args.against], force=args.force,
        )  # fmt: skip
    elif args.force and not args.save_heads:
        raise UserError("--force has no effect without --output; leave it out")
    check_heads_file(args)
    if folder is not None:
        check_libraries()
    import_plugin(args.user_dir)
    hide_log("")
    models, against = open_compared(
        args.checkpoints, source, selection, against=args.against, cpu=args.cpu
    )
    paths = [*args.checkpoints, *([args.against] if args.against else [])]
    names = short_names([*map(named_file, paths)])
    # Hashed before the analysis: a running training may replace a checkpoint meanwhile.
    hashes = {path: hash_of(path) for path in paths}
    lines = read_sentences(args.sentences)
    if args.save_heads:  # before the analysis, so that a mistyped line in FILE fails early
        save_heads(Path(args.save_heads), models[0], lines)
        print(f"written: {args.save_heads}", file=sys.stderr)
    viewed = [
        [] if folder is None else HeadModel(model).view(lines, selection.resolve(model.sites))
        for model in models
    ]
    analyses = [
        analyze(model, selection, name=name, against=against)
        for name, model in zip(names, models, strict=False)
    ]
    if lines:
        analyses = [a._replace(sentences=own) for a, own in zip(analyses, viewed, strict=True)]
    for analysis in analyses:
        analysis.result.sha256 = hashes[analysis.result.checkpoint]
    made = {
        "command": shlex.join(["diverse-mha", *args.words]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "versions": versions(),
    }
    content = Content(
        selection.subset, source.data, made, [analysis.result for analysis in analyses]
    )
    if against:
        path = args.against
        content.against = {"name": names[-1], "checkpoint": path, "sha256": hashes[path]}
    if folder is not None:  # write before printing, which raises an error on a closed pipe
        write_numbers(folder, content)
    elif output is not None:
        write_json(output, to_json(content))
    try:
        print(format_tables(content), flush=True)
    finally:  # even if the pipe was closed
        if folder is not None:
            write_figures(folder, content, analyses)
            print(f"wrote {folder / 'report.html'}", file=sys.stderr)
    return 0


def read_sentences(value: str | None) -> list[str]:
    """Return the lines of ``--sentences FILE``; none for a number or None."""
    if value is None or value.isdecimal():
        return []
    if not Path(value).is_file():
        raise UserError(
            f"--sentences {value}: no such file; give a number, or a file of one sentence per line"
        )
    lines = [line for line in read_lines(Path(value)) if line.strip()]
    if not lines:
        raise UserError(f"--sentences {value}: holds no sentence; give one sentence per line")
    return lines


def check_heads_file(args: argparse.Namespace) -> None:
    """Raise an error if ``--save-heads`` has no sentences, several models or an unusable FILE.

    FILE must end in .npz. An existing FILE that ``--save-heads`` did not write needs ``--force``.
    """
    file = args.save_heads
    if file is None:
        return
    if not file.endswith(".npz"):
        raise UserError(f"--save-heads {file}: give a name that ends in .npz")
    if not read_sentences(args.sentences):
        raise UserError(f"--save-heads {file}: needs sentences; give --sentences FILE")
    if len(args.checkpoints) > 1:
        raise UserError(f"--save-heads {file}: holds only one model; give one checkpoint")
    check_output_file("--save-heads", Path(file))
    check_replaceable(
        "--save-heads", Path(file), is_own=is_heads_file,
        inputs=[*args.checkpoints, args.sentences], force=args.force,
    )  # fmt: skip


def check_libraries() -> None:
    """Raise an error if one of ``LIBRARIES`` is missing."""
    missing = [name for name in LIBRARIES if not importlib.util.find_spec(name)]
    if missing:
        raise UserError(
            f"plots and the report need {', '.join(missing)}: pip install {' '.join(missing)}; "
            "without them, --output FILE.json writes the numbers"
        )


def read_selection(args: argparse.Namespace, in_folder: bool) -> Selection:
    """Check the options and return the selection.

    Sentences are selected only with ``in_folder``, because only a report shows them.
    """
    if args.text is not None and args.subset is not None:
        raise UserError(f"--subset {args.subset} has no effect with --text; leave it out")
    for name in ("output", "against"):
        if getattr(args, name) == "":  # probably an unset shell variable
            raise UserError(f"--{name} is empty; give a path, or leave it out")
    if args.sentences is not None and not in_folder and not args.save_heads:
        raise UserError(f"--sentences {args.sentences} has no effect without --output FOLDER")
    if args.sentences == "0":
        raise UserError("--sentences 0: give 1 or more, or a file")
    number = args.sentences is None or args.sentences.isdecimal()
    measures = parse_names("measures", args.measures, tuple(MEASURES))
    if args.importance_of is not None and "importance" not in measures:
        raise UserError(
            f"--importance-of {args.importance_of} has no effect without --measures importance"
        )
    return Selection(
        components=parse_names("components", args.components, COMPONENTS) or None,
        layers=parse_layers("layers", args.layers, ("all", "last")),
        measures=measures,
        threshold=args.threshold,
        subset=args.text or args.subset or "valid",
        max_tokens=args.max_tokens,
        sentences=int(args.sentences or SENTENCES) if in_folder and number else 0,
        importance_of=args.importance_of or "zero",
    )


def open_compared(
    paths: list[str],
    source: Source,
    selection: Selection,
    *,
    against: str | None = None,
    cpu: bool = False,
) -> tuple[Sequence[AnyAdapter], AnyAdapter | None]:
    """Load the models and check that they have the selected components, layers and split.

    Args:
        paths: checkpoints.
        source: where their sentences come from.
        selection: components, layers, measures and split.
        against: checkpoint to compare all others with.
        cpu: do not use a GPU.

    Returns:
        The models, and the model of ``against`` or None.
    """
    models = open_heads([*paths, against] if against else paths, source, cpu=cpu)
    chosen = [selection.resolve(model.sites, model.path) for model in models[: len(paths)]]
    for model in models:
        model.batches(selection.subset, selection.max_tokens)
    if not against:
        return models, None
    for model, sites in zip(models, chosen, strict=False):
        check_same_data(model, models[-1], sites)
    return models[:-1], models[-1]


def analyze(
    model: Adapter[Batch, OwnSite],
    selection: Selection,
    *,
    name: str = "",
    against: Adapter[Batch, OwnSite] | None = None,
) -> Analysis:
    """Measure the selected heads over a split, and their similarity to the model ``against``.

    ``name`` labels the model in the results and in the progress bar.
    """
    sites = selection.resolve(model.sites, model.path)
    meter = HeadsMeter(sites, selection.measures, selection.threshold)
    comparison = AgainstMeter(sites, selection.threshold)
    sentences: list[Sentence] = []
    count, viewed = 0, None
    for batch in model.batches(selection.subset, selection.max_tokens, label=name):
        if viewed is None:
            viewed = model.first(selection.subset, selection.sentences)
        numbers = model.numbers(batch)
        rows = [row for row, n in enumerate(numbers) if n in viewed]
        wanted = {*selection.states, "weights"} if rows else selection.states
        states = model.states(batch, tuple(wanted))
        try:
            meter.update(states)
            if against is not None:
                comparison.update(states, against.states(batch, ("outputs",)))
        except ValueError as error:  # NaN or infinity
            raise UserError(f"{model.path}: {error}") from error
        sentences += [take_sentence(model, batch, row, states, sites) for row in rows]
        count += len(numbers)
    heads = meter.result()
    result = Model(
        name,
        model.path,
        model.architecture,
        count,
        heads.components,
        heads.summary,
        heads.disagreement,
    )
    if {ABLATION, GRADIENT} & {*selection.measures}:
        means = meter.means() if selection.importance_of == "mean" else None
        result.importance, modules = measure_importance(model, selection, name, means)
        for component, layers in modules.items():
            for number, measures in layers.items():
                result.components[component].layers[number] |= measures
        result.summary = summarise(result.components)
    if against is not None:
        last = {site.component: site.numbers for site in model.sites}
        result.against = {
            component: replace(found, svcca_heads=last[component].spread(found.svcca_heads, None))
            for component, found in comparison.result().items()
        }
    return Analysis(result, sorted(sentences, key=lambda sentence: sentence["number"]))
