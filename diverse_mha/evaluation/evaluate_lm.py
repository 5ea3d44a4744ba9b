"""``diverse-mha evaluate-lm``: loss and perplexity of a language model, by fairseq-eval-lm.

Perplexity is exp of the mean negative log-likelihood of a token, including the end-of-sentence
token of each line. With a context window of N, each block starts with the last N tokens of the
block before it, which are not scored again (Baevski and Auli 2019, section 4.1).
"""

import argparse
import logging
import math
import re
import sys
import time
from collections.abc import Mapping, Sequence
from logging.handlers import BufferingHandler
from pathlib import Path

from diverse_mha.common.errors import STARTS_OVER, UserError, add_number, run_cli
from diverse_mha.common.files import check_data_folder, json_text, sha256_of, write_results
from diverse_mha.common.plugins import without_user_dir
from diverse_mha.common.processes import versions
from diverse_mha.evaluation.fairseq_command import (
    Inputs,
    add_samples,
    evaluation_output,
    evaluation_parser,
    parse_with_fairseqs,
    run_fairseq,
)
from diverse_mha.evaluation.states import check_task, open_state, updates_of
from diverse_mha.fairseq_fixes.patch import patched
from diverse_mha.tasks.data_files import check_split, splits_in

_EVALUATED = re.compile(r"Evaluated ([\d,]+) tokens")
_EXAMPLES = re.compile(r" ([\d,]+) examples$", re.MULTILINE)
_AS_TRAINED = "is taken from the checkpoint, so that blocks are as in training; leave it out"
_BY_WORD = "would change the unit of perplexity; use fairseq-eval-lm"
_HIDDEN = "has no effect here; use fairseq-eval-lm"
_REFUSED = {
    "--sample-break-mode": _AS_TRAINED,
    "--add-bos-token": _AS_TRAINED,
    "--tokens-per-sample": _AS_TRAINED,
    "--remove-bpe": _BY_WORD,
    "--post-process": _BY_WORD,
    "--output-word-probs": _HIDDEN,
    "--output-word-stats": _HIDDEN,
}
SOFTMAX_BATCH = 1024  # tokens whose probabilities are in memory at once


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    parser = evaluation_parser(
        "evaluate-lm",
        "Score a language model by loss and perplexity. "
        "Options that are not listed go to fairseq-eval-lm; give them after data_bin.",
        "Writes FILE.json with loss, perplexity, number of tokens and versions.\n\nexample:\n"
        "  diverse-mha evaluate-lm runs/ptb/checkpoint_best.pt data/ptb/bin",
        model="the model",
        data="the data that fairseq-preprocess made",
        output="SUBSET",
    )
    parser.add_argument("--subset", default="test", help="split of data_bin (default: test)")
    text = "tokens at the start of a block that are context and not scored"
    add_number(parser, "context-window", 0, text, least=0)
    parser.add_argument(
        "--by-sentence",
        action="store_true",
        help="score every line by itself, without the lines before it; also writes "
        "FILE.scores.tsv, with each line's natural log-probability and number of tokens",
    )
    add_samples(parser)
    return parser


def count_tokens(data: Path, subset: str) -> int:
    """Return the number of tokens in a split, including end-of-sentence tokens."""
    from fairseq.data.data_utils import load_indexed_dataset

    check_data_folder(data)
    if not (data / "dict.txt").is_file():
        raise UserError(f"{data}: has no dict.txt; give data for language modelling")
    if not (data / f"{subset}.idx").is_file():
        raise UserError(f"--subset {subset}: not in {data}; available: {splits_in(data)}")
    check_split(data, subset)
    # Keep a reference to the data set: its sizes are a view of the memory-mapped file.
    text = load_indexed_dataset(str(data / subset))
    return int(text.sizes.sum())


class SentenceScores:
    """Records each sentence's log-probability while fairseq-eval-lm scores."""

    def __init__(self, bos: bool):
        self.bos = bos  # True if each sentence starts with bos, whose score is left out
        self.rows: dict[int, tuple[float, int]] = {}

    def recording(self, scorer: type) -> type:
        """Return a subclass of a fairseq scorer that records the scores of each batch."""
        rows, start = self.rows, int(self.bos)

        class Scorer(scorer):
            def generate(self, models, sample, **kwargs):
                hypotheses = super().generate(models, sample, **kwargs)
                for number, (best, *_) in zip(sample["id"].tolist(), hypotheses, strict=True):
                    scores = best["positional_scores"][start:].double()
                    rows[number] = scores.sum().item(), scores.numel()
                return hypotheses

        return Scorer

    def text(self) -> str:
        """Return a line for each sentence in the order of the text: log-probability and tokens."""
        rows = (f"{total:.6f}\t{tokens}\n" for _, (total, tokens) in sorted(self.rows.items()))
        return "".join(rows)


def score(
    inputs: Inputs,
    trained: Mapping,
    tokens_per_sample: int,
    context_window: int,
    sentences: SentenceScores | None = None,
) -> tuple[float, int]:
    """Run fairseq-eval-lm in this process, with blocks as in training.

    Args:
        inputs: checkpoint, data, subset, and options for fairseq.
        trained: options of the training task.
        tokens_per_sample: tokens in a block.
        context_window: tokens at the start of a block that are not scored.
        sentences: recorder of sentence scores; if given, each line is scored on its own.

    Returns:
        The loss in bits per token and the number of tokens.
    """
    from fairseq import options
    from fairseq_cli import eval_lm

    words = ["--tokens-per-sample", str(tokens_per_sample)]
    words += ["--context-window", str(context_window)]
    words += ["--max-tokens", str(max(4096, tokens_per_sample))]
    words += ["--softmax-batch", str(SOFTMAX_BATCH)]
    if mode := "eos" if sentences else trained.get("sample_break_mode"):
        # Joined by "=", so that a value from the checkpoint cannot be parsed as an option.
        words.append(f"--sample-break-mode={mode}")
    if trained.get("add_bos_token"):
        words.append("--add-bos-token")
    records = BufferingHandler(10**6)
    logger, level = eval_lm.logger, eval_lm.logger.level
    logger.addHandler(records)
    logger.setLevel(logging.INFO)  # fairseq gives the token counts only in its log
    scorer = sentences.recording(eval_lm.SequenceScorer) if sentences else eval_lm.SequenceScorer
    try:
        with patched(eval_lm, "SequenceScorer", scorer):
            result = run_fairseq(eval_lm, options.get_eval_lm_parser(), inputs, words)
    finally:
        logger.setLevel(level)
        logger.removeHandler(records)
    lines = "\n".join(record.getMessage() for record in records.buffer)
    count = int(_EVALUATED.findall(lines)[-1].replace(",", ""))
    if trained.get("add_bos_token"):  # fairseq counts bos, which is not scored
        count -= int(_EXAMPLES.findall(lines)[-1].replace(",", ""))
    return float(result["loss"]), count


def main(words: Sequence[str]) -> int:
    """Score the split; return the exit code."""
    args, inputs = parse_with_fairseqs(build_parser(), words, _REFUSED)
    checkpoint, data = inputs.checkpoint, Path(args.data)
    state = open_state(checkpoint)
    trained = check_task(checkpoint, state, "language_modeling")
    tokens = count_tokens(data, args.subset)
    block = trained.get("tokens_per_sample") or 1024  # fairseq's default
    if args.context_window >= block:
        raise UserError(
            f"--context-window {args.context_window}: must be less than the "
            f"{block} tokens of a block in training"
        )
    if args.by_sentence and args.context_window:
        raise UserError(
            f"--context-window {args.context_window}: does not go with --by-sentence, which "
            "scores lines without context; give --context-window 0, or leave out --by-sentence"
        )
    asked = {
        "data": str(data),
        "context_window": args.context_window,
        "tokens_per_sample": block,
        "eval_lm_options": without_user_dir(inputs.extra),
        "by_sentence": args.by_sentence,
    }
    more = [".scores.tsv"] if args.by_sentence else []
    output = evaluation_output(args, [checkpoint], args.subset, asked, "perplexity", more)

    start = time.monotonic()
    sentences = SentenceScores(bool(trained.get("add_bos_token"))) if args.by_sentence else None
    loss, evaluated = score(inputs, trained, block, args.context_window, sentences)
    seconds = time.monotonic() - start
    if not loss < 1024:  # also true of NaN; 2**loss would overflow
        raise UserError(
            f"{checkpoint}: its loss is {loss:g} bits per token, so it has no perplexity; give a "
            "checkpoint from before the training diverged"
        )
    if evaluated != tokens:
        cure = "shorten the lines" + ", or leave out --by-sentence" * args.by_sentence
        raise UserError(
            f"{args.subset}: {tokens - evaluated:,} of its {tokens:,} tokens are in lines longer "
            f"than the {block} tokens that the model reads; {cure}"
        )
    files = {output.with_suffix(suffix): sentences.text() for suffix in more}
    results = {
        "perplexity": 2**loss,
        "loss_bits": loss,
        "loss_nats": loss * math.log(2),
        "tokens": evaluated,
        "subset": args.subset,
        **asked,
        "sample_break_mode": "eos" if sentences else trained.get("sample_break_mode"),
        "checkpoint": checkpoint,
        "updates": updates_of(state),
        "dictionary": sha256_of(data / "dict.txt"),
        "seconds": round(seconds, 2),
        "versions": versions(),
    }
    write_results(files | {output: json_text(results)})
    blocks = f"blocks of {block}, context window {args.context_window}"
    if sentences:
        blocks = f"{len(sentences.rows):,} sentences"
    print(f"{args.subset}: {evaluated:,} tokens in {blocks}, {seconds:.1f} s")
    print(f"  loss        {loss:8.4f} bits per token")
    print(f"  perplexity  {2**loss:8.2f} per token")
    for file in (*files, output):
        print(f"written: {file}")
    return 0


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]), interrupted=STARTS_OVER)
