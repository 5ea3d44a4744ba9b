"""``diverse-mha evaluate-classifier``: accuracy of a sentence classifier on each split."""

import argparse
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

from diverse_mha.common.errors import STARTS_OVER, UserError, add_number, run_cli
from diverse_mha.common.files import MAKE_DATA, check_data_exists, write_json
from diverse_mha.common.options import split_list
from diverse_mha.common.plugins import add_user_dir, import_plugin
from diverse_mha.common.progress import hide_log, with_progress
from diverse_mha.evaluation.fairseq_command import evaluation_output, evaluation_parser
from diverse_mha.evaluation.models import Loaded, open_models
from diverse_mha.evaluation.run_folder import open_folders
from diverse_mha.evaluation.states import check_task, open_state


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    parser = evaluation_parser(
        "evaluate-classifier",
        "Classify the splits of a data set and report the accuracy of each.",
        "Writes a JSON file with the number of examples, the accuracy and the share of the most "
        "frequent class of each split. If the model was trained with --accuracy-by, also the "
        "number and the accuracy of each group.\n\nexample:\n"
        "  diverse-mha evaluate-classifier runs/logic/checkpoint_best.pt data/logic/bin",
        model="the model, a checkpoint of task sentence_classification",
        data="the data that a script of data-prep made",
        output="accuracy",
    )
    parser.add_argument(
        "--subset", metavar="NAMES", help="comma-separated splits (default: all but train)"
    )
    add_number(parser, "batch-size", 256, "examples in a batch")
    add_user_dir(parser)
    return parser


def subsets_of(data: Path, wanted: str | None) -> list[str]:
    """Return the splits to evaluate (default: all but train, with test10 after test9)."""
    available = sorted((path.stem for path in (data / "label").glob("*.idx")), key=_natural)
    names = (
        [name for name in available if name != "train"] if wanted is None else split_list(wanted)
    )
    if not names:
        splits = ", ".join(available) or "no split"
        raise UserError(f"--subset is missing: {data} has {splits}; name the splits to score")
    for name in names:
        if name not in available:
            raise UserError(
                f"--subset {name}: not in {data}; available: {', '.join(available) or 'none'}"
            )
    return names


def _natural(name: str) -> list:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def load_split(model, task, subset: str) -> None:
    """Load a split into the task. Raise an error if a sentence is too long for the model."""
    task.load_dataset(subset)
    sizes, limit = task.dataset(subset).sizes, model.max_positions()
    longest = int(sizes.argmax())
    if sizes[longest] > limit:
        raise UserError(
            f"{subset}: example {longest + 1} has a sentence of {sizes[longest]} tokens, "
            f"but the model reads at most {limit}; leave the example out, or train with "
            "--max-source-positions"
        )


@torch.no_grad()
def predict(loaded: Loaded, subset: str, batch_size: int) -> list[tuple[int, int, int | None]]:
    """Return (predicted class, target class, group or None) for each example of a loaded split."""
    task = loaded.task
    batches = task.get_batch_iterator(
        task.dataset(subset), max_sentences=batch_size
    ).next_epoch_itr(shuffle=False)
    answers = {}
    for sample in map(loaded.on_device, with_progress(batches, subset, "batches")):
        chosen = loaded.model(**sample["net_input"])[0].argmax(dim=-1)
        groups = sample["group"].tolist() if "group" in sample else [None] * len(chosen)
        rows = zip(chosen.tolist(), sample["target"].tolist(), groups, strict=True)
        answers.update(zip(sample["id"].tolist(), rows, strict=True))
    return [answers[number] for number in sorted(answers)]


def score(answers: Sequence[tuple[int, int, int | None]], groups: Sequence[str] = ()) -> dict:
    """Return ``examples``, and in percent ``accuracy`` and ``majority`` (largest class's share).

    ``answers`` is the result of :func:`predict`. If names of groups are given, the key ``groups``
    holds ``examples`` and ``accuracy`` of each group that occurs.
    """
    right = [chosen == target for chosen, target, _ in answers]
    most = Counter(target for _, target, _ in answers).most_common(1)[0][1]
    result = {
        "examples": len(answers),
        "accuracy": round(100 * sum(right) / len(right), 4),
        "majority": round(100 * most / len(right), 4),
    }
    if groups:
        by_group = {}
        for number, name in enumerate(groups):
            members = [answer for answer in answers if answer[2] == number]
            if members:
                by_group[name] = {k: v for k, v in score(members).items() if k != "majority"}
        result["groups"] = by_group
    return result


def main(words: Sequence[str] | None = None) -> int:
    """Evaluate the splits; return the exit code."""
    args = build_parser().parse_args(words)
    checkpoint, _ = open_folders(args.checkpoint, ())
    state = open_state(checkpoint)
    check_task(checkpoint, state, "sentence_classification")
    data = Path(args.data)
    check_data_exists(data)
    if not (data / "label").is_dir():
        raise UserError(f"{data}: has no labels; {MAKE_DATA}")
    import_plugin(args.user_dir)
    subsets = subsets_of(data, args.subset)
    hide_log()
    states = {checkpoint: state}
    loaded = open_models(checkpoint, args.data, cpu=args.cpu, states=states)
    model, task = loaded.model, loaded.task
    asked = {"data": str(data), "subset": args.subset, "accuracy_by": task.cfg.accuracy_by}
    output = evaluation_output(args, [checkpoint], "accuracy", asked, "subsets")
    for subset in subsets:
        load_split(model, task, subset)
    start = time.monotonic()
    results = {}
    for subset in subsets:
        results[subset] = score(predict(loaded, subset, args.batch_size), task.groups)
        result = results[subset]
        share = f"most frequent class: {result['majority']:.2f} %"
        accuracy = f"accuracy {result['accuracy']:.2f} % of {result['examples']:,}"
        print(f"{subset}: {accuracy} ({share})", flush=True)
        groups = result.get("groups", {})
        if len(groups) > 1:
            shares = (f"{name} {group['accuracy']:.2f} %" for name, group in groups.items())
            print(f"  by {task.cfg.accuracy_by}: " + ", ".join(shares))
    content = {
        "checkpoint": checkpoint,
        **asked,
        "subsets": results,
        "seconds": round(time.monotonic() - start, 2),
    }
    write_json(output, content)
    print(f"written: {output}")
    return 0


if __name__ == "__main__":
    run_cli(main, interrupted=STARTS_OVER)
