"""``diverse-mha reproduce``: reproduces a paper's table or figure with one command."""

import argparse
import importlib.util
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from diverse_mha.common.errors import UserError, add_number
from diverse_mha.common.files import ROOT, check_output_folder
from diverse_mha.common.options import flag, split_list
from diverse_mha.common.plugins import add_user_dir, import_plugin
from diverse_mha.common.processes import Interrupted
from diverse_mha.common.tables import to_text
from experiments import figures, printer, runs, study
from experiments.measures import MEASURES
from experiments.numbers import Choices, Filled, Plan, Results, fill, plan_table
from experiments.papers import PAPERS, SCALES, Table, find, items_of
from experiments.runner import Runner, check_model, failure_told
from experiments.runs import Place
from experiments.tune import Trainer, tune, tuned

PAPER_GPUS = 8  # assumed by a dry run at the papers' scale on a machine without GPUs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha reproduce``."""
    parser.allow_abbrev = False
    parser.epilog = (
        "Run an interrupted command again to resume. Tables share their trainings.\n\n"
        "examples:\n"
        "  diverse-mha reproduce --list\n"
        "  diverse-mha reproduce li2018 table-1 --scale small --seeds 1,2,3"
    )
    parser.add_argument("paper", nargs="?", help=f"{', '.join(PAPERS)}, or all")
    parser.add_argument("table", nargs="?", help="such as table-1 or figure-4, or all")
    parser.add_argument("--list", action="store_true", help="list all tables and figures")
    parser.add_argument(
        "--scale",
        help="smoke (tiny, for trying), small (Multi30k, Tatoeba, Penn Treebank, logic) "
        "or paper (the paper's corpora)",
    )
    add_user_dir(parser)
    what = parser.add_argument_group("what to run")
    what.add_argument("--rows", metavar="NAMES", help="only these rows, separated by commas")
    what.add_argument("--seeds", default="1", metavar="N,N", help="random seeds (default: 1)")
    what.add_argument(
        "--collect", action="store_true", help="print the finished results; train nothing"
    )
    what.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    what.add_argument(
        "--rehearse",
        action="store_true",
        help="build each distinct model once at its real size, on random text, and print "
        "parameters, seconds and memory",
    )
    where = parser.add_argument_group(
        "where to run it",
        "A training takes the largest number of visible GPUs that divides its recipe's "
        "update_freq; with --scale smoke it runs on the CPU.",
    )
    where.add_argument(
        "--out", type=Path, metavar="FOLDER", help="output folder (default: runs/reproduce)"
    )
    add_number(where, "jobs", None, "trainings in parallel; they share the cores (default: 1)")
    where.add_argument(
        "--slurm",
        metavar="OPTIONS",
        help="submit the runs to Slurm with options of sbatch, such as "
        "partition=gpu,gpus_per_node=8,time=2-00:00:00; run the command again to collect results",
    )
    where.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="prepared corpora (default: data; smoke: in --out)",
    )
    training = parser.add_argument_group("training")
    add_number(training, "updates", None, "number of updates of every training, for a trial")
    training.add_argument(
        "--tune",
        action="append",
        default=[],
        metavar="KEY=VALUE,VALUE",
        help="tune lr, dropout or any key of the recipe on validation, for each row; another "
        "--tune starts from the best value of the one before",
    )
    training.add_argument(
        "--tuned", type=Path, metavar="FILE", help="train each row with the best settings of --tune"
    )
    training.add_argument(
        "--bf16",
        action=argparse.BooleanOptionalAction,
        help="train in bfloat16 or in float32 (default: as in each recipe)",
    )


#: Pairs of options that are refused together. The message says that the first has no effect.
IDLE = (
    ("collect", "dry_run"),
    ("jobs", "dry_run"),
    ("jobs", "collect"),
    ("dry_run", "tune"),
    ("tuned", "tune"),
    *(("slurm", other) for other in ("collect", "dry_run", "tune", "rehearse")),
    *((other, "rehearse") for other in ("collect", "dry_run", "tune", "jobs", "updates")),
)


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha reproduce``.

    Returns:
        0; 1 if a table is not complete or a model failed; 128 + signal number if interrupted.
    """
    import_plugin(args.user_dir)
    if args.list:
        print(listing())
        return 0
    for name, other in IDLE:
        value = vars(args)[name]
        if value and vars(args)[other]:
            option = flag(name) + ("" if value is True else f" {value}")
            raise UserError(f"{option} has no effect with {flag(other)}; leave one of them out")
    items = _items(args)
    choices = Choices(args.scale, _seeds(args.seeds), args.updates, args.bf16)
    place = _place(args)
    if args.tuned is not None:
        items = [tuned(items[0], args.tuned, args.scale)]
    plans = [plan_table(item, choices) for item in items]
    if args.dry_run:
        there = torch.cuda.device_count()
        gpus = {"smoke": 0, "paper": there or PAPER_GPUS}.get(args.scale, there)
        return _dry_run(plans, place, gpus)
    if args.rehearse and choices.scale != "paper":
        raise UserError(f"--rehearse: is for --scale paper, not {choices.scale}")
    runner = _runner(args, place)
    failed = 0
    try:
        if args.rehearse:
            from experiments.rehearse import rehearse

            return 0 if rehearse(plans, place.out) else 1
        for plan in plans:
            item = plan.table
            print(f"== {item.paper} {item.name}: {item.title} ==", flush=True)
            name = _file_name(item, args)
            if args.tune:
                failed += not tune(item, args.tune, choices, runner, name)
            else:
                failed += not _table(plan, name, runner)
    except Interrupted as stopped:
        print("\ninterrupted; run the same command again to go on", flush=True)
        return 128 + stopped.number
    if failed and len(items) > 1:
        print(f"{failed} of {len(items)} tables are not complete")
    return 1 if failed else 0


def _runner(args: argparse.Namespace, place: Place) -> Runner:
    if args.slurm is not None:
        from experiments.slurm import SlurmRunner, read_options

        if importlib.util.find_spec("submitit") is None:
            raise UserError("--slurm needs submitit: pip install submitit")
        return SlurmRunner(place, jobs=args.jobs or 1, options=read_options(args.slurm))
    kind = Trainer if args.tune else Runner
    return kind(place, jobs=args.jobs or 1, collect=args.collect)


def listing() -> str:
    """List every table with its scales."""
    lines = []
    for paper, items in PAPERS.items():
        for item in items.values():
            rows = f"{len(item.rows)} rows"
            scales = " ".join(scale if scale in item.scales else "-" for scale in SCALES)
            lines.append(f"{paper:<10}{item.name:<19}{scales:<18}{rows:>8}  {item.title}")
    return "\n".join(lines)


def _items(args: argparse.Namespace) -> list[Table]:
    if args.paper is None:
        raise UserError("name a paper and a table; diverse-mha reproduce --list shows them")
    if args.scale not in SCALES:
        problem = "is missing" if args.scale is None else args.scale
        raise UserError(f"--scale {problem}; choose from {', '.join(SCALES)}")
    several = "all" in (args.paper, args.table)
    if several:
        if args.paper == "all" and args.table not in (None, "all"):
            raise UserError(f"{args.table}: is a table of one paper; name the paper, not all")
        for name in ("rows", "tune", "tuned"):
            if vars(args)[name]:
                raise UserError(f"--{name}: needs a single table; name one")
        papers = PAPERS if args.paper == "all" else [args.paper]
        items = [item for paper in papers for item in items_of(paper).values()]
    elif args.table is None:
        raise UserError(f"name a table of {args.paper}, or all; --list shows them")
    else:
        items = [find(args.paper, args.table).only(args.rows)]
    there = [item for item in items if args.scale in item.scales]
    if not there:
        scales = [scale for scale in SCALES if any(scale in item.scales for item in items)]
        raise UserError(
            f"--scale {args.scale}: {args.paper} {args.table} has no such scale; choose from "
            f"{', '.join(scales)}"
        )
    return there


def _seeds(text: str) -> tuple[int, ...]:
    words = split_list(text)
    seeds = [int(word) if word.isdecimal() else 0 for word in words]
    if not all(seeds) or len(set(seeds)) < len(seeds):
        raise UserError(f"--seeds {text}: give different whole numbers from 1 up, as in 1,2,3")
    return tuple(seeds)


def _place(args: argparse.Namespace) -> Place:
    out = (args.out or Path("runs/reproduce")).absolute()  # in the current folder, not the clone
    check_output_folder("--out", out)
    data = out / "smoke" / "data" if args.scale == "smoke" else Path("data").absolute()
    return Place(
        plugin=Path(args.user_dir).absolute() if args.user_dir else None,
        out=out,
        data=args.data.absolute() if args.data else data,
    )


def _file_name(item: Table, args: argparse.Namespace) -> str:
    """Return the name of a table's files, with suffixes for rows, precision, updates and tuning."""
    name = f"{item.paper}-{item.name}" + ("" if args.rows is None else "-rows")
    name += {None: "", True: "-bf16", False: "-float32"}[args.bf16]
    name += "" if args.updates is None else f"-{args.updates}-updates"
    return name + ("-tune" if args.tune else "") + ("-tuned" if args.tuned else "")


def _table(plan: Plan, name: str, runner: Runner) -> bool:
    """Run and print one table.

    Returns:
        True if all cells have values. With ``--collect`` or queued runs, a table with a finished or
        queued run and no damaged result is enough. A figure must be drawn too.
    """
    item, choices = plan.table, plan.choices
    found = runner.run_all(plan.runs)
    runner.measure([n for n in plan.needs.values() if n.heads and found.keys() >= set(n.runs)])
    partly = runner.collect or runner.queued > 0
    if partly and not found:
        cure = "; to train, leave out --collect" if runner.collect else ""
        print(f"nothing is finished yet{cure}\n", flush=True)
        return runner.queued > 0
    results = Results(plan, runner.place, found, runner.heads)
    filled = study.marked(results, fill(results))
    layout = printer.lay_out(item, filled, choices, found.values())
    print("\n" + to_text(layout))
    folder = runner.place.out / choices.scale / "tables"
    files = printer.write_all(layout, folder, name, printer.to_json(layout, filled))
    drawn = not item.draw
    if item.draw and found:
        with failure_told(f"{item.name}: "):
            files += _draw(results, filled, folder, name)
            drawn = True
    if item.tested is not None:
        files += study.report(results, folder / name)
    print("written: " + ", ".join(map(str, files)) + "\n", flush=True)
    return drawn and (
        bool(found) and not runner.unreadable if partly else _complete(filled, choices)
    )


def _complete(filled: Filled, choices: Choices) -> bool:
    """Return True if every cell has a value for each seed, except those of optional measures."""
    return all(
        len(number.ours) == len(choices.seeds)
        for row, numbers in filled
        for cell, number in zip(row.cells, numbers, strict=True)
        if cell and cell.experiment and not MEASURES[cell.measure].optional
    )


def _draw(results: Results, filled: Filled, folder: Path, name: str) -> list[Path]:
    """Draw a figure; return its files.

    Numbers are over all seeds; heads and models are those of the first seed.
    """
    plan, place, drawn = results.plan, results.place, []
    item, choices = plan.table, plan.choices
    for row, numbers in filled:
        needs = {column: plan.of(row, column)[choices.seeds[0]] for column in item.columns}
        run = needs[item.columns[0]].run
        if item.draw in figures.RUNS_MODELS and run in results.found:
            check_model(run, place)
        outputs = {column: results.heads(need) for column, need in needs.items() if need.heads}
        drawn.append(
            figures.RowData(
                row.name,
                row.label,
                {c: (n.mean, n.spread, n.paper) for c, n in zip(needs, numbers, strict=True)},
                {column: heads and heads["models"][0] for column, heads in outputs.items()},
                (run.model(place), run.data(place)) if run.model(place).is_file() else None,
            )
        )
    seeds = ", ".join(map(str, choices.seeds))
    corpus = " ".join([run.corpus, "-".join(run.languages).strip("-")]).strip()
    caption = (
        f"{item.title}. Ours: corpus {corpus}, recipe {run.recipe.config}, scale {choices.scale}, "
        f"seed {seeds}."
    )
    if others := {need.against.seed for need in needs.values() if need.against is not None}:
        caption += f" Compared with seed {', '.join(map(str, sorted(others)))}."
    cells = [cell for row, _ in filled for cell in row.cells]
    if run.recipe.width != 1 and any(c and c.experiment and c.experiment.width for c in cells):
        caption += f" Our models have {run.recipe.width:g} times the paper's widths."
    return figures.draw(item, drawn, caption, folder, name)


def _dry_run(plans: Sequence[Plan], place: Place, gpus: int) -> int:
    """Print the commands of all runs, ready to paste."""
    python, folder = sys.executable, str(Path(sys.executable).parent)
    print(f"cd {shlex.quote(str(ROOT))}")
    print(f"export DIVERSE_MHA_PYTHON={shlex.quote(python)} PATH={shlex.quote(folder)}:$PATH")
    seen = set()
    for plan in plans:
        print(f"# {plan.table.paper} {plan.table.name}: {plan.table.title}")
        for run in plan.runs:
            if run in seen:
                print(f"#   {run.name}: as above")
                continue
            seen.add(run)
            here = replace(place, gpus=run.gpus(gpus))
            print(f"\n# {run.name}")
            for step in (runs.prepare(run, here), runs.carry_out(run, here)):
                print(step.shell())
        here = replace(place, gpus=gpus)
        analyses = [runs.analyze(n, here).shell() for n in plan.needs.values() if n.heads]
        print(*dict.fromkeys(analyses), "", sep="\n")
    return 0
