"""Scores of models with more and more heads removed: ``diverse-mha prune --curve``."""

import argparse
import contextlib
import io
import json
import logging
import re
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

from diverse_mha.analysis import pruning
from diverse_mha.analysis.names import short_names
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_files, write_text
from diverse_mha.common.options import split_list
from diverse_mha.common.tables import Layout, csv_text, to_text
from diverse_mha.evaluation.checkpoints import save_checkpoint

if TYPE_CHECKING:
    from diverse_mha.analysis.figures.style import Plot

UNITS = {"nll": ("loss, bits a token", 3), "bleu": ("sacreBLEU", 2)}  # and digits
Curves = dict[str, dict[str, list[float]]]  # scores by share, of models and checkpoints


def read_shares(text: str) -> list[float]:
    """Read ``--curve``: rising shares of the heads."""
    try:
        shares = [float(word) for word in split_list(text)]
    except ValueError:
        shares = []
    if not shares or sorted(set(shares)) != shares or not 0 <= shares[0] <= shares[-1] <= 1:
        raise UserError(f"--curve {text}: give rising shares from 0 to 1, such as 0,0.2,0.4")
    return shares


def named(words: list[str]) -> list[tuple[str, str]]:
    """Return name and path of every checkpoint; seeds of one model have one name."""
    split = [word.partition("=") if not Path(word).exists() else ("", "", word) for word in words]
    paths = [path if equals else name or path for name, equals, path in split]
    shorts = short_names(paths)
    return [
        (name if equals else re.split(r"[._-]?seed", short)[0] or short, path)
        for (name, equals, _), short, path in zip(split, shorts, paths, strict=True)
    ]


def run_curve(args: argparse.Namespace) -> int:
    """Score every checkpoint at every share; print the table and write it with a figure."""
    from diverse_mha.analysis.command import check_libraries

    check_libraries()
    shares, args.score = read_shares(args.curve), args.score or "nll"
    args.score_subset = args.score_subset or "test"
    curves: Curves = {}
    for name, path in named(args.checkpoints):
        own = curves.setdefault(name, {})
        if path in own:
            raise UserError(f"{path}: is named twice; name it once")
        own[path] = _scores(args, path, name, shares)
    folder, layout = Path(args.output), table(curves, shares, args)
    lines = [["model", "checkpoint", "share", args.score]]
    for name, runs in curves.items():
        for path, scores in runs.items():
            lines += [[name, path, *pair] for pair in zip(shares, scores, strict=True)]
    write_text(folder / "curve.csv", csv_text(lines))
    from diverse_mha.analysis.figures.style import FORMATS, drawn

    pictures = drawn(figure(curves, shares, args.score))
    write_files({folder / f"curve.{ending}": pictures[ending] for ending in FORMATS})
    print(to_text(layout))
    print(f"written: {folder}/curve.csv, .png, .svg and .pdf")
    return 0


def _scores(args: argparse.Namespace, path: str, name: str, shares: list[float]) -> list[float]:
    loaded = pruning.load_prunable(path, args.data, cpu=args.cpu)
    counts = [
        pruning.count_of(loaded.model, f"--curve {share:g}", share, keep_one=args.keep_one)
        for share in shares
    ]
    going = pruning.removals(loaded, counts[-1], args, name)
    gone, scores = [], []
    for count in counts:
        gone += [next(going) for _ in range(count - len(gone))]
        if args.score == "nll":
            label = f"{name} {args.score_subset}, {count} heads pruned"
            scores.append(pruning.token_loss(loaded, args.score_subset, args.max_tokens, label))
        else:
            scores.append(_bleu(args, pruning.pruned_state(path, loaded, gone)))
    return scores


def _bleu(args: argparse.Namespace, state: dict) -> float:
    """Score as ``diverse-mha evaluate`` does."""
    from diverse_mha.evaluation import translation

    with tempfile.TemporaryDirectory(prefix="prune-") as folder:
        checkpoint, result = Path(folder, "pruned.pt"), Path(folder, "scores.json")
        save_checkpoint(state, checkpoint)
        words = [str(checkpoint), args.data, "--subset", args.score_subset]
        words += ["--output", str(result), *(["--cpu"] if args.cpu else [])]
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        with contextlib.redirect_stdout(io.StringIO()):
            translation.main(words)
        root.handlers[:], _ = handlers, root.setLevel(level)  # fairseq's log is closed
        return json.loads(result.read_text(encoding="utf-8"))["sacrebleu"]


def table(curves: Curves, shares: list[float], args: argparse.Namespace) -> Layout:
    """Lay out a row a share and a column a model: the mean over its seeds ± their deviation."""
    unit, digits = UNITS[args.score]
    lines = []
    for place, share in enumerate(shares):
        cells = [f"{share:g}"]
        for runs in curves.values():
            values = [scores[place] for scores in runs.values()]
            spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
            cells.append(f"{mean(values):.{digits}f}{spread}")
        lines.append(tuple(cells))
    title = f"Heads pruned by {args.by}: {unit} on {args.score_subset}"
    notes = [f"share: of all heads, ranked on {args.subset}"]
    notes += (
        ["±: standard deviation over seeds"] if any(len(x) > 1 for x in curves.values()) else []
    )
    return Layout(title, ("share", *curves), tuple(lines), tuple(notes))


def figure(curves: Curves, shares: list[float], score: str) -> "Plot":
    """Draw a curve a model, its mean over seeds, with a band from the lowest to the highest."""
    import matplotlib

    from diverse_mha.analysis.figures.style import COLOURS, MARKERS, STYLE, Plot, new_figure

    with matplotlib.rc_context(STYLE):
        drawing = new_figure(5.2, 3.2)
        axis = drawing.subplots()
        for place, (name, runs) in enumerate(curves.items()):
            columns = list(zip(*runs.values(), strict=True))
            look = {"color": COLOURS[place % len(COLOURS)]}
            if len(runs) > 1:
                low, high = ([edge(column) for column in columns] for edge in (min, max))
                axis.fill_between(shares, low, high, alpha=0.2, linewidth=0, **look)
            marker = MARKERS[place % len(MARKERS)]
            means = [mean(column) for column in columns]
            axis.plot(shares, means, marker=marker, markersize=4, label=name, **look)
        axis.set_xlabel("share of heads pruned")
        axis.set_ylabel(UNITS[score][0])
        axis.legend(frameon=False, fontsize=8)
    return Plot("curve", "Scores as heads are pruned", "", drawing)
