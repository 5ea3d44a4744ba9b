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
from diverse_mha.evaluation.opener import CONFIG, Source, add_text, named_file, read_source
from diverse_mha.evaluation.outputs import add_force, check_replaceable, json_with


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha prune``."""
    parser.allow_abbrev = False
    parser.epilog = (
        "examples:\n  diverse-mha prune runs/mine/checkpoint_best.pt data/mine/bin --share 0.3 "
        "--output pruned.pt\n  diverse-mha prune runs/{base,coda}/checkpoint_best.pt data/mine/bin "
        "--curve 0,0.2,0.4 --output curve\n  diverse-mha prune models/marian --text dev.de "
        "--target dev.en --share 0.3 --output models/pruned"
    )
    parser.add_argument(
        "checkpoints", nargs="+", metavar="MODEL",
        help="a checkpoint with linear aggregation; --curve takes several, as NAME=MODEL or in "
        "folders such as coda-seed1, and draws one curve for all seeds of a model; after them "
        "DATA, the folder that fairseq-preprocess wrote. With --text: folders of transformers",
    )  # fmt: skip
    parser.add_argument(
        "--output", required=True, metavar="FILE",
        help="pruned checkpoint to write; with --text or --curve, folder to write",
    )  # fmt: skip
    group = add_text(parser)
    group.add_argument(
        "--score-text", metavar="FILE", help="text to score with --curve, in place of a split"
    )
    group.add_argument("--score-target", metavar="FILE", help="translations of --score-text")
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
    what.add_argument("--subset", help="split of DATA to rank heads on (default: valid)")
    curve = parser.add_argument_group("with --curve")
    curve.add_argument("--score", choices=["nll", "bleu"], help="kind of score (default: nll)")
    curve.add_argument("--score-subset", metavar="SPLIT", help="split to score (default: test)")


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha prune``."""
    for name in ("score", "score_subset", "score_text", "score_target"):
        if args.curve is None and getattr(args, name) is not None:
            raise UserError(f"{flag(name)} {getattr(args, name)}: needs --curve; give both")
    if args.curve is not None and args.remove:
        raise UserError("--remove has no effect with --curve; give --share or --heads")
    if args.seed is not None and args.by != "random":
        raise UserError(f"--seed {args.seed} has no effect with --by {args.by}; leave it out")
    if args.by == "random" and args.steps > 1:
        raise UserError(f"--steps {args.steps} has no effect with --by random; leave it out")
    source = _source(args)
    import_plugin(args.user_dir)
    hide_log("")
    seed = 1 if args.seed is None else args.seed
    subset = args.text or args.subset or "valid"
    ranking = pruning.Ranking(args.by, subset, args.max_tokens, args.steps, seed, args.keep_one)
    return (_prune if args.curve is None else _curve)(args, ranking, source)


def _source(args: argparse.Namespace) -> Source:
    """Return where sentences come from; take DATA from the end of the models."""
    for name, needed in (("subset", None), ("score_subset", None), ("score_target", "score_text")):
        value = getattr(args, name)
        if value is not None and args.text is not None and needed is None:
            raise UserError(f"{flag(name)} {value} has no effect with --text; leave it out")
        if value is not None and needed is not None and getattr(args, needed) is None:
            raise UserError(f"{flag(name)} {value}: needs {flag(needed)}; give both")
    if args.text is None and args.score_text is not None:
        raise UserError(f"--score-text {args.score_text}: needs --text; give both")
    if args.text is not None and args.curve is not None and args.score_text is None:
        raise UserError("--curve: give text to score too, --score-text FILE")
    scored = [] if args.score_text is None else [(args.score_text, args.score_target)]
    models = args.checkpoints
    named = [path if Path(path).exists() else path.rpartition("=")[2] for path in models]
    source = read_source(args, named, scored)
    del models[len(named) :]
    return source


def _curve(args: argparse.Namespace, ranking: pruning.Ranking, source: Source) -> int:
    check_no_checkpoints("--output", args.output)
    folder = Path(args.output)
    pictures = [folder / f"curve.{ending}" for ending in ("pdf", "svg", "png")]
    check_replaceable(
        "--output", folder / "curve.csv", is_own=_is_curve, beside=pictures,
        inputs=args.checkpoints, force=args.force,
    )  # fmt: skip
    score, score_subset = args.score or "nll", args.score_text or args.score_subset or "test"
    shares = pruning.read_shares(args.curve)
    curve = pruning.Curve(shares, score, score_subset, source, args.cpu)
    pruning.draw_curve(curve, ranking, args.checkpoints, folder)
    return 0


def _is_curve(path: Path) -> bool:
    """Return True for a table written by ``--curve``."""
    with open(path, "rb") as file:
        return file.readline().startswith(b"model,checkpoint,share,")


def _check_output(args: argparse.Namespace, path: str, source: Source) -> None:
    """Raise an error if the output would overwrite what this command did not write."""
    if source.texts is None:
        check_output_file("--output", args.output)
        check_replaceable(
            "--output", args.output, is_own=written_by_prune, inputs=[path], force=args.force
        )
        return
    folder, record = Path(args.output), "pruned_heads.json"
    check_no_checkpoints("--output", folder)
    check_replaceable(
        "--output", folder / record, is_own=json_with("made_by", "pruned_heads"),
        beside=[folder / CONFIG], inputs=[Path(path, name) for name in (CONFIG, record)],
        force=args.force,
    )  # fmt: skip


def written_by_prune(path: Path) -> bool:
    """Return True for a checkpoint of ``prune``."""
    from diverse_mha.evaluation.states import written_by

    return written_by("prune")(path)


def _prune(args: argparse.Namespace, ranking: pruning.Ranking, source: Source) -> int:
    if len(args.checkpoints) > 1:
        raise UserError(f"{args.checkpoints[1]}: second checkpoint; give one only, or add --curve")
    (path,) = args.checkpoints
    _check_output(args, path, source)
    model = pruning.open_prunable(path, source, cpu=args.cpu)
    given, wanted = ("--share", args.share) if args.heads is None else ("--heads", args.heads)
    count = pruning.count_of(model.sites, f"{given} {wanted}", wanted, keep_one=args.keep_one)
    group = model.removal_group(count) if args.remove else None
    (name,) = short_names([named_file(path)])
    score = (model, ranking.subset, args.max_tokens, name)
    before = pruning.token_loss(*score)
    heads = list(pruning.removals(model, count, ranking, name, group))
    after = pruning.token_loss(*score)
    note = model.save_pruned(heads, args.output, remove=args.remove)
    total = len(heads_in(model.sites))
    print(f"{args.output}: {path} without {count} of {total} heads, by {args.by}")
    print(f"pruned, in this order: {', '.join(map(str, heads)) or 'none'}")
    loss = f"{before:.3f} bits per {model.unit} before, {after:.3f} after"
    print(f"loss on {ranking.subset}: {loss}" + (f"\n{note}" if note else ""))
    return 0
