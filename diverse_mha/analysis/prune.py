"""``diverse-mha prune``: removes the least important heads, or scores a pruning curve."""

import argparse
from pathlib import Path

from diverse_mha.analysis import pruning
from diverse_mha.analysis.labels import short_names
from diverse_mha.attention.sites import heads_in
from diverse_mha.common.errors import UserError, add_cpu, add_number
from diverse_mha.common.files import check_no_checkpoints, check_output_file
from diverse_mha.common.options import flag
from diverse_mha.common.plugins import add_user_dir, import_plugin
from diverse_mha.common.progress import hide_log
from diverse_mha.common.ranges import between
from diverse_mha.evaluation.outputs import add_force, check_replaceable
from diverse_mha.evaluation.states import written_by


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha prune``."""
    parser.allow_abbrev = False
    parser.epilog = (
        "examples:\n  diverse-mha prune runs/mine/checkpoint_best.pt data/mine/bin --share 0.3 "
        "--output pruned.pt\n  diverse-mha prune runs/{base,coda}/checkpoint_best.pt data/mine/bin "
        "--curve 0,0.2,0.4 --output curve"
    )
    parser.add_argument(
        "checkpoints", nargs="+", metavar="CHECKPOINT",
        help="a model with linear aggregation; --curve takes several, as NAME=CHECKPOINT or in "
        "folders such as coda-seed1, and draws one curve for all seeds of a model",
    )  # fmt: skip
    parser.add_argument("data", metavar="DATA", help="folder that fairseq-preprocess wrote")
    parser.add_argument(
        "--output", required=True, metavar="FILE",
        help="pruned checkpoint to write; with --curve, folder to write",
    )  # fmt: skip
    add_force(parser)
    add_number(parser, "max-tokens", 4000, "tokens in a batch")
    add_cpu(parser)
    add_user_dir(parser)
    what = parser.add_argument_group("what to remove")
    amount = what.add_mutually_exclusive_group(required=True)
    add_number(amount, "heads", None, "remove N heads")
    amount.add_argument(
        "--share",
        type=between(0, 1).parse_float,
        metavar="S",
        help="remove this share of all heads",
    )
    amount.add_argument(
        "--curve", metavar="0,0.1,...", help="score each model without these shares of its heads"
    )
    what.add_argument(
        "--by", choices=pruning.RANKINGS, default="importance",
        help="order of removal (default: %(default)s): "
        + "; ".join(f"{name}: {text}" for name, text in pruning.RANKINGS.items()),
    )  # fmt: skip
    what.add_argument(
        "--keep-one", action="store_true", help="keep one head or more in every attention module"
    )
    what.add_argument(
        "--remove", action="store_true",
        help="write a smaller model without the pruned heads' parameters (default: zero them)",
    )  # fmt: skip
    add_number(what, "steps", 1, "remove heads in N steps, and rank the rest before each step")
    add_number(what, "seed", None, "random seed of --by random (default: 1)", least=0)
    what.add_argument(
        "--subset", default="valid", help="split to rank heads on (default: %(default)s)"
    )
    curve = parser.add_argument_group("with --curve")
    curve.add_argument("--score", choices=["nll", "bleu"], help="kind of score (default: nll)")
    curve.add_argument("--score-subset", metavar="SPLIT", help="split to score (default: test)")


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha prune``."""
    for name in ("score", "score_subset"):
        if args.curve is None and getattr(args, name) is not None:
            raise UserError(f"{flag(name)} {getattr(args, name)}: needs --curve; give both")
    if args.curve is not None and args.remove:
        raise UserError("--remove has no effect with --curve; give --share or --heads")
    if args.seed is not None and args.by != "random":
        raise UserError(f"--seed {args.seed} has no effect with --by {args.by}; leave it out")
    if args.by == "random" and args.steps > 1:
        raise UserError(f"--steps {args.steps} has no effect with --by random; leave it out")
    import_plugin(args.user_dir)
    hide_log("")
    seed = 1 if args.seed is None else args.seed
    ranking = pruning.Ranking(
        args.by, args.subset, args.max_tokens, args.steps, seed, args.keep_one
    )
    return _prune(args, ranking) if args.curve is None else _curve(args, ranking)


def _curve(args: argparse.Namespace, ranking: pruning.Ranking) -> int:
    check_no_checkpoints("--output", args.output)
    folder = Path(args.output)
    pictures = [folder / f"curve.{ending}" for ending in ("pdf", "svg", "png")]
    check_replaceable(
        "--output", folder / "curve.csv", is_own=_is_curve, beside=pictures,
        inputs=args.checkpoints, force=args.force,
    )  # fmt: skip
    score, score_subset = args.score or "nll", args.score_subset or "test"
    shares = pruning.read_shares(args.curve)
    curve = pruning.Curve(shares, score, score_subset, args.data, args.cpu)
    pruning.draw_curve(curve, ranking, args.checkpoints, folder)
    return 0


def _is_curve(path: Path) -> bool:
    """Return True for a table written by ``--curve``."""
    with open(path, "rb") as file:
        return file.readline().startswith(b"model,checkpoint,share,")


def _prune(args: argparse.Namespace, ranking: pruning.Ranking) -> int:
    if len(args.checkpoints) > 1:
        raise UserError(f"{args.checkpoints[1]}: second checkpoint; give one only, or add --curve")
    (path,) = args.checkpoints
    check_output_file("--output", args.output)
    check_replaceable(
        "--output", args.output, is_own=written_by("prune"), inputs=[path], force=args.force
    )
    model = pruning.open_prunable(path, args.data, cpu=args.cpu)
    if args.remove:
        model.check_removable()
    given, wanted = ("--share", args.share) if args.heads is None else ("--heads", args.heads)
    count = pruning.count_of(model.sites, f"{given} {wanted}", wanted, keep_one=args.keep_one)
    (name,) = short_names([path])
    score = (model, args.subset, args.max_tokens, f"{name} {args.subset}")
    before = pruning.token_loss(*score)
    heads = list(pruning.removals(model, count, ranking, name))
    after = pruning.token_loss(*score)
    note = model.save_pruned(heads, args.output, remove=args.remove)
    total = len(heads_in(model.sites))
    print(f"{args.output}: {path} without {count} of {total} heads, by {args.by}")
    print(f"pruned, in this order: {', '.join(map(str, heads)) or 'none'}")
    loss = f"{before:.3f} bits per {model.unit} before, {after:.3f} after"
    print(f"loss on {args.subset}: {loss}" + (f"\n{note}" if note else ""))
    return 0
