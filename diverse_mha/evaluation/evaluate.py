"""``diverse-mha evaluate``: translates a test set with beam search and scores it.

For tokenised data, tokenised BLEU is computed as in the papers. sacreBLEU (Post 2018) and chrF
compare detokenised text with the original reference. Each score has a signature.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset

from diverse_mha.common.errors import STARTS_OVER, UserError, run_cli
from diverse_mha.common.files import (
    check_data_folder,
    sha256_of,
)
from diverse_mha.common.options import flag
from diverse_mha.common.progress import Progress
from diverse_mha.corpora.prepared import preparation, subwords_of
from diverse_mha.corpora.subwords import join_subwords
from diverse_mha.corpora.text import make_detokeniser, read_parallel
from diverse_mha.evaluation.ctranslate2_engine import Search, open_engine
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
from diverse_mha.evaluation.models import fitting, open_models
from diverse_mha.evaluation.scores import TRANSLATIONS, Decoding, check_scorer, report
from diverse_mha.evaluation.search import BeamSearch
from diverse_mha.evaluation.states import check_translates, settings
from diverse_mha.evaluation.translate import add_beam_arguments, add_engine
from diverse_mha.tasks.data_files import check_split, splits_in

GENERATE = "fairseq-generate"  # the command whose options this one takes
_REFUSED: dict[str, str] = dict.fromkeys(
    ("--source-lang", "--target-lang", "-s", "-t"),
    "is set by this command; use --target-lang LANG (default: the checkpoint's)",
)
_REFUSED |= dict.fromkeys(
    ("--remove-bpe", "--post-process"), "is set by this command from the data's subwords"
)


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    parser = evaluation_parser(
        "evaluate",
        "Translate a test set with beam search, and score it with tokenised BLEU, sacreBLEU "
        "and chrF. Options that are not listed go to fairseq-generate; give them after data_bin.",
        "Writes FILE.json with the scores, FILE.hyp.tok (tokenised translations) and "
        "FILE.hyp.detok (plain text).\n\nexample:\n"
        "  diverse-mha evaluate runs/mine/checkpoint_best.pt data/mine/bin --beam 5",
        model="the model; several joined by ':' form an ensemble",
        data="the data that fairseq-preprocess made",
        output="SUBSET",
    )
    text = parser.add_argument_group("what to translate")
    text.add_argument("--subset", default="test", help="split of data_bin (default: test)")
    text.add_argument(
        "--target-lang",
        metavar="LANG",
        help="target language (default: the model's if data_bin has it, else data_bin's second)",
    )
    search = parser.add_argument_group("search")
    add_beam_arguments(search)
    add_engine(search, "fairseq")  # not auto, so that results on all machines are comparable
    add_samples(search)
    scoring = parser.add_argument_group("scoring")
    scoring.add_argument(
        "--raw-reference",
        type=Path,
        metavar="FILE",
        help="plain-text reference, for sacreBLEU (default: data_bin/../raw/SUBSET.LANG)",
    )
    scoring.add_argument(
        "--tok-reference",
        type=Path,
        metavar="FILE",
        help="tokenised reference, for tokenised BLEU of tokenised data (default: "
        "data_bin/../tok/SUBSET.LANG)",
    )
    scoring.add_argument(
        "--moses-language",
        metavar="LANG",
        help="language of the detokeniser's rules (default: the language in data_bin/corpus.json, "
        "or else the target language)",
    )
    scoring.add_argument(
        "--compound-split",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="also score with hyphenated words split, as Vaswani et al. 2017 and Zheng et al. "
        "2021 report tokenised BLEU",
    )
    return parser


def languages(
    data: Path, subset: str, target: str | None, trained: tuple[str | None, str | None]
) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the data's language pair in the order of its file names, and (source, target).

    Args:
        data: the data folder.
        subset: the split.
        target: ``--target-lang``; None: the model's target language if the data has the model's
            languages, else the second language of the data.
        trained: source and target language of the model.
    """
    check_data_folder(data)
    pairs_found = []
    for path in sorted(data.glob(f"{subset}.*-*.*.idx")):
        pair, side = path.name.removeprefix(f"{subset}.").rsplit(".", 2)[:2]
        if pair.endswith(f"-{side}"):
            pairs_found.append((pair.removesuffix(f"-{side}"), side))
    if not pairs_found:
        raise UserError(f"--subset {subset}: not in {data}; available: {splits_in(data)}")
    if len(pairs_found) > 1:
        pairs = ", ".join(map("-".join, pairs_found))
        raise UserError(f"{data}: has {subset} for {pairs}; give a folder with one pair")
    (pair,) = pairs_found
    if target not in (None, *pair):
        raise UserError(
            f"--target-lang {target}: {data} only has {' and '.join(pair)}; give one of these"
        )
    theirs = trained[1] if set(pair) == set(trained) else None
    target = target or theirs or pair[1]
    return pair, (pair[1 - pair.index(target)], target)


def check_count(count: int, what: str, lines: int) -> None:
    """Raise an error unless ``count``, a number of ``what``, is the number of reference lines."""
    if count != lines:
        raise UserError(
            f"{count} {what} for {lines} reference lines: the reference does not belong to this "
            "data; check --subset and the references"
        )


class Split:
    """A split of the data, as both engines read it."""

    def __init__(self, inputs: Inputs, pair: tuple[str, str], language: str):
        self._subset, self._language, self._data = inputs.subset, language, Path(inputs.data)
        self._prefix = self._data / f"{inputs.subset}.{'-'.join(pair)}.{language}"

    def __str__(self) -> str:
        return str(self._prefix)

    def sentences(self) -> list[list[str]]:
        """Return the sentences as subwords."""
        words = Dictionary.load(str(self._data / f"dict.{self._language}.txt"))
        return [
            [words[token] for token in line.tolist() if token != words.eos()]
            for line in _load(self._prefix)
        ]

    def dataset(self, task: Any) -> Any:
        """Return the split of fairseq's task."""
        task.load_dataset(self._subset)
        return task.dataset(self._subset)


def open_fairseq(decoding: Decoding) -> BeamSearch:
    """Open the models and fairseq's search, with the options of fairseq-generate."""
    from fairseq import options, tasks, utils

    inputs = decoding.inputs
    words = ["--source-lang", decoding.source_lang, "--target-lang", decoding.target_lang]
    words += ["--beam", str(decoding.beam), "--lenpen", str(decoding.lenpen)]
    cfg = parse_for_fairseq(GENERATE, options.get_generation_parser(), inputs, words)
    opened = opening(GENERATE, cfg, inputs)
    with options_blamed(GENERATE, inputs):
        if cfg.generation.sampling and cfg.generation.nbest != cfg.generation.beam:
            raise ValueError("--sampling requires --nbest to be equal to --beam")
    if not cfg.generation.no_seed_provided:
        np.random.seed(cfg.common.seed)
        utils.set_torch_seed(cfg.common.seed)
    with fitting(inputs.checkpoint, inputs.data):
        task = tasks.setup_task(cfg.task)
        paths, states = inputs.checkpoints, inputs.states
        loaded = open_models(paths, inputs.data, task=task, states=states, **opened)
        path = cfg.generation.lm_path
        extra = open_models(path, inputs.data, **opened).model if path else None
    with options_blamed(GENERATE, inputs):
        # --bpe and --tokenizer have no effect, but incomplete ones are refused.
        task.build_tokenizer(cfg.tokenizer)
        task.build_bpe(cfg.bpe)
        return BeamSearch(loaded, cfg, language_model=extra)


def _load(prefix: Path) -> Any:
    return load_indexed_dataset(str(prefix))


def main(words: Sequence[str]) -> int:
    """Translate and score; return the exit code."""
    args, inputs = parse_with_fairseqs(build_parser(), words, _REFUSED)
    data = Path(args.data)
    for checkpoint in inputs.checkpoints:
        check_translates(checkpoint, inputs.state(checkpoint))
    task = settings(inputs.state(inputs.checkpoints[0]))
    trained = task.get("source_lang"), task.get("target_lang")
    pair, (source_lang, target_lang) = languages(data, args.subset, args.target_lang, trained)
    check_scorer(target_lang)
    name = f"{args.subset}.{target_lang}"
    prepared = data.absolute().parent
    made = preparation(data)
    tokeniser = made.tokeniser["tokeniser"]
    tokenised = tokeniser != "none"
    for option in ("moses_language", "tok_reference", "compound_split"):
        if getattr(args, option) and not tokenised:
            ours = option == "compound_split" and flag(option) not in words  # the recipe's
            cure = "give --no-compound-split" if ours else "leave it out"
            raise UserError(
                f"{flag(option)}: has no effect, because {data} was not tokenised; {cure}"
            )
    references = {"--raw-reference": args.raw_reference or prepared / "raw" / name}
    if tokenised:
        references["--tok-reference"] = args.tok_reference or prepared / "tok" / name
    raw, *more = read_parallel(references)
    tok = more[0] if tokenised else raw
    decoding = Decoding(
        inputs,
        source_lang,
        target_lang,
        beam=args.beam,
        lenpen=args.lenpen,
        post_process=made.post_process or subwords_of(data / f"dict.{target_lang}.txt"),
        tokenised=tokenised,
        lowercase=made.tokeniser["lowercase"],
        moses_language=args.moses_language,
        compound_split=args.compound_split,
        raw_reference=args.raw_reference,
        tok_reference=args.tok_reference,
    )
    # Check the output before converting and translating, which may take hours.
    decoding = replace(decoding, engine=args.engine)
    asked = decoding.to_json()
    if args.engine == "auto":
        del asked["engine"]  # not known before the conversion
    place = args, inputs.checkpoints, args.subset
    output = evaluation_output(*place, asked, "sacrebleu", TRANSLATIONS)
    check_split(data, args.subset)
    text = _load(data / f"{args.subset}.{'-'.join(pair)}.{pair[1]}")
    check_count(len(text), "sentences", len(tok))
    refused = next(iter(inputs.extra), "").partition("=")[0]
    engine = open_engine(
        args.engine, inputs.checkpoint, data, cpu=args.cpu,
        search=Search(args.beam, args.lenpen, longest=200, max_tokens=12000),  # fairseq's limits
        refused=f"CTranslate2 does not support {refused}" if refused else "",
    )  # fmt: skip
    if args.engine == "auto":
        decoding = replace(decoding, engine="ctranslate2" if engine else "fairseq")
        evaluation_output(*place, decoding.to_json(), "sacrebleu", TRANSLATIONS)
    source = prepared / "raw" / f"{args.subset}.{source_lang}"
    source_sha256 = sha256_of(source) if source.is_file() else None

    start = time.monotonic()
    engine = engine or open_fairseq(decoding)
    split, bar = Split(inputs, pair, source_lang), Progress("translating", "sentences", len(text))
    with fitting(inputs.checkpoint, data), options_blamed(GENERATE, inputs), bar as progress:
        translated = [
            join_subwords(best.subwords, decoding.post_process)
            for best in engine.translate(split, progress)
        ]
    check_count(len(translated), "translations", len(tok))
    seconds = time.monotonic() - start
    moses = args.moses_language or made.languages.get(target_lang) or target_lang
    plain = [*map(make_detokeniser(moses, tokeniser), translated)]
    translations, references = (translated, plain), (tok, raw)
    report(decoding, output, translations, references, source_sha256=source_sha256, seconds=seconds)
    return 0


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]), interrupted=STARTS_OVER)
