"""``diverse-mha compare``: is one translation of a test set better than another, or one method?

Two translations: three tests. *Paired bootstrap resampling* (Koehn 2004) and *approximate
randomisation* (Riezler and Maxwell 2005) are sacreBLEU's own and ask about the BLEU of the whole
set. The *sign test* (Collins et al. 2005), which Li et al. 2018 report, asks in how many sentences
one has the higher sentence BLEU than the other, ties left out; its p-value is that of the exact
two-sided binomial test.

Methods, each with a run a seed (``--baseline``, ``--system``): :mod:`.comparison`.
"""

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from diverse_mha.common.arguments import add_number
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_json
from diverse_mha.common.options import parse_names, split_list
from diverse_mha.common.places import check_file
from diverse_mha.common.tables import to_text, write_texts
from diverse_mha.corpora.text import read_parallel
from diverse_mha.evaluation.bleu import check_scorer, composed
from diverse_mha.evaluation.comparison.runs import read_run, read_scores
from diverse_mha.evaluation.comparison.systems import RESAMPLES, SEED, System, compare_systems
from diverse_mha.evaluation.comparison.tables import FEW, FEWEST, lay_out, to_json

#: sacreBLEU's tests: what it calls them, what we do, and samples, of the first as its default.
_PAIRED = {
    "bootstrap": ("bs", "paired bootstrap resampling (sacreBLEU)", 1000),
    "randomisation": ("ar", "approximate randomisation (sacreBLEU)", 10000),
}
_TESTS = (*_PAIRED, "sign")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha compare``."""
    parser.allow_abbrev = False
    parser.epilog = (
        "Two translations: diverse-mha compare A B --reference REF. Methods, each with a run a "
        "seed: diverse-mha compare --baseline runs/base-seed* --system runs/hsic-seed* --system "
        "Sub.=runs/sub1,runs/sub2. A run is a folder with an evaluation in it, a checkpoint that "
        "was evaluated, the JSON file of an evaluation, or, with --reference, translations. "
        "Scores of another program: diverse-mha compare --scores base=a1.txt,a2.txt --scores "
        "mine=b1.txt,b2.txt."
    )
    parser.add_argument("hyp_a", nargs="?", metavar="HYP_A", help="a file such as .hyp.detok")
    parser.add_argument("hyp_b", nargs="?", metavar="HYP_B", help="another of the same lines")
    parser.add_argument(
        "--baseline", nargs="+", metavar="[NAME=]RUN", help="runs of the method to compare with"
    )
    parser.add_argument(
        "--system", nargs="+", action="append", metavar="[NAME=]RUN",
        help="runs of another method; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--scores", nargs="+", action="append", metavar="NAME=FILE",
        help="files of a number a line, such as COMET of each sentence, a file a seed; once for "
        "each system, the baseline first",
    )  # fmt: skip
    parser.add_argument(
        "--result", metavar="NAME",
        help="of a run with several results take that whose name holds this, such as avg "
        "(default: the newest of the best checkpoint)",
    )  # fmt: skip
    parser.add_argument(
        "--reference", metavar="REF", help="plain text, untouched (runs: that of their evaluation)"
    )
    parser.add_argument(
        "--tokenize", metavar="NAME",
        help="sacreBLEU's tokeniser (default: 13a; runs: that of their evaluation)",
    )  # fmt: skip
    parser.add_argument(
        "--tests", metavar="NAMES",
        help=f"of two translations: comma list (default: {','.join(_TESTS)})",
    )  # fmt: skip
    text = f"of methods: draws of the bootstrap (default: {RESAMPLES:,})"
    add_number(parser, "resamples", None, text, least=100)
    text = f"of the resampling (default: {SEED})"
    add_number(parser, "seed", None, text)  # sacreBLEU takes 0 for no seed
    parser.add_argument(
        "--output", type=Path, metavar="FILE.json",
        help="also write the results; of methods also as FILE.md, FILE.csv and FILE.tex",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha compare``."""
    if args.output is not None:
        check_file("--output", args.output, ".json")
    if args.tokenize is not None:
        _metric(args.tokenize)
    if args.scores is not None:
        return _scored(args)
    if args.baseline is None and args.system is None:
        return _two_files(args)
    return _methods(args)


def _scored(args: argparse.Namespace) -> int:
    """Compare systems by what another program scored, sentence by sentence."""
    others = ("hyp_a", "baseline", "system", "reference", "tokenize", "tests", "result")
    for name in others:
        if (value := getattr(args, name)) is not None:
            said = value if name == "hyp_a" else f"--{name}"
            raise UserError(f"{said}: does not go with --scores; leave it out")
    if len(args.scores) < 2:
        raise UserError("--scores is given once; give it for the baseline and for each system")
    groups = _named_groups(args.scores, "--scores")
    systems = [System(name, tuple(map(read_scores, paths))) for name, paths in groups]
    first = systems[0].runs[0]
    for run in (run for one in systems for run in one.runs):
        if run.test != first.test:
            counts = f"{run.test[0]} scores, but {first.path} has {first.test[0]}"
            raise UserError(f"--scores {run.path}: has {counts}; score the same sentences")
    return _report(args, systems)


def _methods(args: argparse.Namespace) -> int:
    """Compare methods over seeds and sentences."""
    if args.hyp_a is not None:
        raise UserError(f"{args.hyp_a}: a file by itself does not go with --baseline and --system")
    if args.tests is not None:
        raise UserError(f"--tests {args.tests}: is for two translations, not for --system")
    if not args.baseline or not args.system:
        missing = "--system" if args.baseline else "--baseline"
        raise UserError(f"{missing} is missing; name the runs of both sides")
    groups = _named_groups([args.baseline, *args.system], "--system")
    reference = Path(args.reference) if args.reference else None
    systems = []
    for name, paths in groups:
        how = {"reference": reference, "tokenize": args.tokenize, "result": args.result}
        systems.append(System(name, tuple(read_run(path, **how) for path in paths)))
    for name in ("tokenize", "resamples", "seed"):
        value = getattr(args, name)
        if value is not None and not systems[0].runs[0].statistics:
            raise UserError(f"--{name} {value}: is for translations, these runs have none; omit it")
    return _report(args, systems)


def _report(args: argparse.Namespace, systems: Sequence[System]) -> int:
    """Compare systems with the first of them; print and write what was found."""
    for ending in (".md", ".csv", ".tex") if args.output is not None else ():
        check_file("--output", args.output.with_suffix(ending))
    resamples, seed = args.resamples or RESAMPLES, args.seed or SEED
    found = compare_systems(systems, resamples=resamples, seed=seed)
    layout = lay_out(found, f"Compared with {systems[0].name}", resamples=resamples)
    said = to_text(layout)
    if args.output is not None:
        files = write_texts(layout, args.output.parent, args.output.stem)
        content = {"title": layout.title, "notes": layout.notes, "systems": to_json(found)}
        write_json(args.output, content | {"resamples": resamples, "seed": seed})
        said += "\nwritten: " + ", ".join(map(str, [args.output, *files]))
    print(said)
    return 0


def _named_groups(groups: Sequence[Sequence[str]], option: str) -> list[tuple[str, list[Path]]]:
    """Name the runs of each system; those of one name are told apart by their folder and file."""
    named = [_named_runs(words) for words in groups]
    names = [name or short for name, short, _, _ in named]
    for place, (name, _, long, _) in enumerate(named):
        if not name and names.count(names[place]) > 1:
            named[place] = (long, *named[place][1:])
    found = [(name or short, paths) for name, short, _, paths in named]
    names = [name for name, _ in found]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{option} {name}: the name is taken; give another as NAME=RUN")
    return found


def _named_runs(words: Sequence[str]) -> tuple[str, str, str, list[Path]]:
    """Read ``NAME=RUN,RUN RUN``: the name, or "" and two for it, the second longer; the runs.

    A run is called after its folder: results and checkpoints have the same name in all. Of a file
    and its folder, the one that names a seed gives the name.
    """
    name, separator, first = words[0].partition("=")
    if not separator or any(map(os.path.exists, (words[0], words[0].partition(",")[0]))):
        name, first = "", words[0]
    given = [first, *words[1:]]
    parts = (
        part for word in given for part in ([word] if os.path.exists(word) else split_list(word))
    )
    paths = [Path(part) for part in parts if part]
    if not paths:
        raise UserError(f"{words[0]}: names no run; write NAME=RUN,RUN")
    path, folder = paths[0], paths[0].parent
    own = path if path.is_dir() or not folder.name else folder
    # As reproduce names a run: the seed and what follows it tell its runs apart.
    run = next((place for place in (path, folder) if "seed" in place.name), own)
    short = re.split(r"[._-]?seed", run.name)[0] or str(run)
    return name, short, str(Path(folder.name, path.name)), paths


def _two_files(args: argparse.Namespace) -> int:
    """Test the difference of two translations."""
    for option, value in (("HYP_A", args.hyp_a), ("HYP_B", args.hyp_b)):
        if value is None:
            raise UserError(f"{option} is missing; name two translations, or --baseline, --system")
    if args.reference is None:
        raise UserError("--reference is missing; give the untouched reference of these lines")
    if args.resamples is not None:
        raise UserError(f"--resamples {args.resamples}: is for --baseline and --system")
    tokenize = args.tokenize or "13a"
    files = {"HYP_A": args.hyp_a, "HYP_B": args.hyp_b, "--reference": args.reference}
    named = {option: Path(path) for option, path in files.items()}
    texts = [*map(composed, read_parallel(named, blank=("HYP_A", "HYP_B")))]
    *hypotheses, reference = texts
    names = parse_names("--tests", args.tests, _TESTS) or _TESTS
    if args.seed is not None and not _PAIRED.keys() & set(names):
        raise UserError(f"--seed {args.seed}: --tests {args.tests} draws nothing; omit one of them")
    metric = _metric(tokenize)
    bleu_a, bleu_b = (metric.corpus_score(lines, [reference]).score for lines in hypotheses)
    results = {
        "a": args.hyp_a,
        "b": args.hyp_b,
        "reference": args.reference,
        "sentences": len(reference),
        "bleu_a": bleu_a,
        "bleu_b": bleu_b,
        "signature": str(metric.get_signature()),
        "tests": {},
    }
    said = [f"A  {bleu_a:6.2f}  {args.hyp_a}", f"B  {bleu_b:6.2f}  {args.hyp_b}"]
    said += [f"BLEU of {len(reference):,} sentences, {results['signature']}"]
    for name in names:
        if name == "sign":
            found, more = _sign(texts, _metric(tokenize, effective_order=True))
        else:
            found, more = _paired(name, texts, metric, args.seed or SEED)
        results["tests"][name] = found
        said.append(f"{found['name']}: p = {found['p']:.4g}, n = {found['n']:,}{more}")
    if args.output is not None:
        write_json(args.output, results)
    if len(reference) < FEWEST:
        said.append(FEW.format(count=len(reference)))
    print(*said, sep="\n")
    return 0


def _sign(texts: Sequence[Sequence[str]], metric) -> tuple[dict, str]:
    """Make the sign test of two translations and their reference; the result, and it in words."""
    from scipy.stats import binomtest

    differences = [
        metric.sentence_score(b, [line]).score - metric.sentence_score(a, [line]).score
        for a, b, line in zip(*texts, strict=True)
    ]
    better, worse = sum(x > 0 for x in differences), sum(x < 0 for x in differences)
    ties = len(differences) - better - worse
    found = {
        "name": "sign test on sentence BLEU, exact binomial, two-sided",
        "p": float(binomtest(better, better + worse).pvalue) if better + worse else 1.0,
        "n": better + worse,
        "b_better": better,
        "a_better": worse,
        "ties": ties,
    }
    return found, f" (B better in {better:,}, A in {worse:,}, {ties:,} ties left out)"


def _paired(test: str, texts: Sequence[Sequence[str]], metric, seed: int) -> tuple[dict, str]:
    """Make one of sacreBLEU's tests likewise."""
    from sacrebleu.significance import PairedTest

    kind, name, samples = _PAIRED[test]
    a, b, reference = map(list, texts)
    with mock.patch.dict(os.environ, SACREBLEU_SEED=str(seed)):  # the only way it takes one
        _, scores = PairedTest(
            [("A", a), ("B", b)], {"BLEU": metric}, [reference], test_type=kind, n_samples=samples
        )()
    first, result = scores["BLEU"]
    # sacreBLEU counts the samples that differ by more than the translations do. Where these
    # have the same score that leaves out all that differ as little, and p comes out tiny.
    # Nor does one sentence say anything of others.
    p = 1.0 if result.score == first.score or len(reference) == 1 else result.p_value
    if test == "randomisation":
        # Nor does it count those that differ as much. Of all ways to swap k lines two always do:
        # none, and all of them. It is 0.5 where two lines differ, and nothing where many do.
        # Lines of the same n-grams are alike: a blank more, or what the tokeniser cuts off anyway.
        counts = (metric._extract_corpus_statistics(side, [reference]) for side in (a, b))
        differ = sum(x != y for x, y in zip(*counts, strict=True))
        p = min(1.0, p + 2.0 ** (1 - differ))
    found = {"name": name, "p": p, "n": len(reference), "samples": samples}
    if result.ci is not None:
        found |= {"bleu_b_mean": result.mean, "bleu_b_ci95": result.ci}
    return found, f", {samples:,} samples"


def _metric(tokenize: str, **more):
    from sacrebleu.metrics import BLEU

    known = sorted(BLEU.TOKENIZERS)
    if tokenize not in known:
        raise UserError(f"--tokenize {tokenize}: unknown; choose from {', '.join(known)}")
    check_scorer("", tokenize)
    return BLEU(tokenize=tokenize, **more)
