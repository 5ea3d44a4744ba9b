"""``diverse-mha evaluate-lm``: loss and perplexity of a language model, as in fairseq-eval-lm.

Perplexity is exp of the mean negative log-likelihood of a token, including the end-of-sentence
token of each line. With a context window of N, each block starts with the last N tokens of the
block before it, which are not scored again (Baevski and Auli 2019, section 4.1).
"""

import argparse
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from diverse_mha.common.errors import STARTS_OVER, UserError, add_number, run_cli
from diverse_mha.common.files import check_data_folder, json_text, sha256_of, write_results
from diverse_mha.common.machine import versions
from diverse_mha.common.plugins import without_user_dir
from diverse_mha.common.progress import with_progress
from diverse_mha.evaluation.fairseq_command import (
    Inputs,
    add_samples,
    evaluation_output,
    evaluation_parser,
    opening,
    options_blamed,
    parse_for_fairseq,
    parse_with_fairseqs,
)
from diverse_mha.evaluation.models import Loaded, fitting, open_models
from diverse_mha.evaluation.states import check_task, updates_of
from diverse_mha.tasks.data_files import check_split, splits_in

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
    text = cast("Any", load_indexed_dataset(str(data / subset)))
    return int(text.sizes.sum())


class Scores(NamedTuple):
    """The scores of a split."""

    loss: float  # bits per token
    tokens: int
    sentences: dict[int, tuple[float, int]]  # block -> natural log-probability, number of tokens

    def text(self) -> str:
        """Return a line for each block in the order of the text: log-probability and tokens."""
        rows = sorted(self.sentences.items())
        return "".join(f"{total:.6f}\t{tokens}\n" for _, (total, tokens) in rows)


def score(
    inputs: Inputs,
    trained: Mapping,
    tokens_per_sample: int,
    context_window: int,
    by_sentence: bool = False,
) -> Scores:
    """Score a split by fairseq's scorer, with blocks as in training and fairseq-eval-lm's options.

    Args:
        inputs: checkpoint, data, subset, and options for fairseq.
        trained: options of the training task.
        tokens_per_sample: tokens in a block.
        context_window: tokens at the start of a block that are not scored.
        by_sentence: score each line on its own.
    """
    from fairseq import options, tasks
    from fairseq.sequence_scorer import SequenceScorer

    words = ["--tokens-per-sample", str(tokens_per_sample)]
    words += ["--context-window", str(context_window)]
    words += ["--max-tokens", str(max(4096, tokens_per_sample))]
    words += ["--softmax-batch", str(SOFTMAX_BATCH)]
    if mode := "eos" if by_sentence else trained.get("sample_break_mode"):
        # Joined by "=", so that a value from the checkpoint cannot be parsed as an option.
        words.append(f"--sample-break-mode={mode}")
    if trained.get("add_bos_token"):
        words.append("--add-bos-token")
    name = "fairseq-eval-lm"
    cfg = parse_for_fairseq(name, options.get_eval_lm_parser(), inputs, words)
    cfg.task.tokens_per_sample -= cfg.eval_lm.context_window  # they come before each block
    opened, states = opening(name, cfg, inputs), inputs.states
    with fitting(inputs.checkpoint, inputs.data):
        task = tasks.setup_task(cfg.task)
        loaded = open_models(inputs.checkpoint, inputs.data, task=task, states=states, **opened)
        model = loaded.model
        with options_blamed(name, inputs):
            model.prepare_for_inference_(cfg)
            task.load_dataset(inputs.subset)
            batches = task.eval_lm_dataloader(
                dataset=task.dataset(inputs.subset),
                max_tokens=cfg.dataset.max_tokens or 36000,  # as in fairseq-eval-lm
                batch_size=cfg.dataset.batch_size,
                max_positions=model.max_positions(),
                shard_id=cfg.dataset.shard_id,
                num_workers=cfg.dataset.num_workers,
                data_buffer_size=cfg.dataset.data_buffer_size,
                context_window=cfg.eval_lm.context_window,
            )
            scorer = SequenceScorer(task.target_dictionary, cfg.eval_lm.softmax_batch)
            return _add_up(loaded, scorer, batches, bos=bool(trained.get("add_bos_token")))


def _add_up(loaded: Loaded, scorer: Any, batches: Iterable[dict], *, bos: bool) -> Scores:
    """Score all batches; ``bos``: each block starts with bos, whose score is left out."""
    total, scored, tokens, sentences = torch.tensor(0.0), 0, 0, {}
    for batch in with_progress(batches, "scoring", "batches"):
        if "net_input" not in batch:
            continue
        sample = loaded.on_device(batch)
        found = scorer.generate(loaded.models, sample)
        for number, (block,) in zip(sample["id"].tolist(), found, strict=True):
            scores = block["positional_scores"][int(bos) :].float()
            sentences[number] = scores.double().sum().item(), scores.numel()
            scores = scores[~scores.isinf()]  # as in fairseq-eval-lm
            total, scored = total + scores.sum().cpu(), scored + scores.numel()
        # With a context window, fairseq's count has the block alone.
        tokens += sample["ntokens"] - len(found) * bos
    return Scores(float(-total / scored / math.log(2)) if scored else 0.0, tokens, sentences)


def main(words: Sequence[str]) -> int:
    """Score the split; return the exit code."""
    args, inputs = parse_with_fairseqs(build_parser(), words, _REFUSED)
    checkpoint, data = inputs.checkpoint, Path(args.data)
    state = inputs.state(checkpoint)
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
    scores = score(inputs, trained, block, args.context_window, args.by_sentence)
    loss, evaluated = scores.loss, scores.tokens
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
    files = {output.with_suffix(suffix): scores.text() for suffix in more}
    results = {
        "perplexity": 2**loss,
        "loss_bits": loss,
        "loss_nats": loss * math.log(2),
        "tokens": evaluated,
        "subset": args.subset,
        **asked,
        "sample_break_mode": "eos" if args.by_sentence else trained.get("sample_break_mode"),
        "checkpoint": checkpoint,
        "updates": updates_of(state),
        "dictionary": sha256_of(data / "dict.txt"),
        "seconds": round(seconds, 2),
        "versions": versions(),
    }
    write_results(files | {output: json_text(results)})
    blocks = f"blocks of {block}, context window {args.context_window}"
    if args.by_sentence:
        blocks = f"{len(scores.sentences):,} sentences"
    print(f"{args.subset}: {evaluated:,} tokens in {blocks}, {seconds:.1f} s")
    print(f"  loss        {loss:8.4f} bits per token")
    print(f"  perplexity  {2**loss:8.2f} per token")
    for file in (*files, output):
        print(f"written: {file}")
    return 0


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]), interrupted=STARTS_OVER)
