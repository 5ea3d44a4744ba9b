"""The steps from a corpus to fairseq's data: fetch, tokenise, filter, subwords, binarise.

Each writes one folder below the output folder::

    raw/    train, valid and test as published: sentence by sentence, untouched, but for carriage
            returns within one, which are blanks here, since they end a line for many a program.
            raw/test.<target> is the reference for sacreBLEU.
    tok/    tokenised; tok/test.<target> is the reference for tokenised BLEU.
    clean/  the training pairs that pass the length filter.
    bpe/    segmented into subwords, with the model and each side's vocabulary.
    bin/    what fairseq-train reads, and corpus.json, which says how it was made.

Of a corpus that was published in subwords (:attr:`Corpus.segmented`), raw/ and tok/ hold the
references of valid and test, bpe/ holds the published subwords, and there is no clean/. Running
text for language models comes tokenised and is taken as it is: there are raw/ and bin/ only.
"""

import functools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from diverse_mha.common.files import sha256_of, write_json
from diverse_mha.common.processes import sole_use
from diverse_mha.corpora import chinese, demo, earlier, subwords, text
from diverse_mha.corpora.binarise import check_kept, preprocess
from diverse_mha.corpora.choose import count_words, dropped_by, filter_pairs
from diverse_mha.corpora.corpus import SPLITS, Job
from diverse_mha.corpora.counts import comparison
from diverse_mha.corpora.fetch import (
    describe,
    fetch,
    fetch_options,
    tokenise_split,
    tokeniser_options,
    write_splits,
)
from diverse_mha.corpora.letters import words_and_letters
from diverse_mha.corpora.parallel_map import map_file
from diverse_mha.corpora.steps import Steps

POSITIONS = 1024  # of fairseq's models and tasks, unless told otherwise
Step = tuple[str, str, Callable[[Job], dict], Callable[[Job, Path], str]]


def steps_of(job: Job) -> list[Step]:
    """Return the steps of a job, in order: folder, title, options, work.

    The options are made by a call, because it may have to read files.
    """
    corpus = job.corpus
    fetched = ("raw", "fetch", fetch_options, fetch)
    if corpus.running_text:
        options = {"min_count": corpus.min_count}
        return [fetched, ("bin", "binarise", lambda _: options, _binarise_text)]
    binarise = ("bin", "binarise", _binarise_options, _binarise)
    if corpus.segmented:
        return [
            fetched,
            ("tok", "tokens", lambda _: {}, _take_tokens),
            ("bpe", "subwords", lambda _: {}, _take_subwords),
            binarise,
        ]
    if corpus.generated:
        options = {"version": demo.VERSION, "pairs": corpus.pairs, "seed": corpus.seed}
        fetched = ("raw", "generate", lambda _: options, _generate)
    return [
        fetched,
        ("tok", "tokenise", tokeniser_options, _tokenise),
        ("clean", "filter", _filter_options, _filter),
        ("bpe", "subwords", _segment_options, _segment),
        binarise,
    ]


def prepare(job: Job) -> None:
    """Run all steps of a job that are not done yet, printing one line for each.

    Then the numbers of pairs are printed beside those of the papers.
    """
    if "zh" in job.corpus.tokeniser_languages and job.corpus.tokeniser == "moses":
        chinese.require_jieba()  # now, not after hours of downloading
    plan = steps_of(job)
    with sole_use(job.out, option="--out"):
        options = {folder: options(job) for folder, _, options, _ in plan}
        steps = Steps(job.out, options, job.local, force=job.force)
        for _, title, _, work in plan:
            steps.run(title, functools.partial(work, job))
        if job.corpus.counts:
            made = json.loads((job.out / "bin" / "corpus.json").read_text(encoding="utf-8"))
            print(*comparison(job.corpus.counts, made["pairs"]), sep="\n", flush=True)


def _generate(job: Job, tmp: Path) -> str:
    return describe(demo.write_corpus(tmp, pairs=job.corpus.pairs, seed=job.corpus.seed))


def _tokenise(job: Job, tmp: Path) -> str:
    raw = job.out / "raw"
    return describe(
        {
            split: tokenise_split(job, split, job.sides(raw, split), job.sides(tmp, split))
            for split in SPLITS
        }
    )


def _filter_options(job: Job) -> dict:
    corpus = job.corpus
    return corpus.limits | ({"count_letters": True} if corpus.count_letters else {})


def _filter(job: Job, tmp: Path) -> str:
    corpus = job.corpus
    by_words = {"zh"} if corpus.tokeniser == "moses" else set()  # jieba has cut it into words
    counts = tuple(
        words_and_letters if corpus.count_letters and code not in by_words else count_words
        for code in corpus.tokeniser_languages
    )
    rule = functools.partial(dropped_by, **corpus.limits, counts=counts)
    return filter_pairs(job.sides(job.out / "tok", "train"), job.sides(tmp, "train"), rule)


def _segment_options(job: Job) -> dict:
    corpus = job.corpus
    options = {
        "method": corpus.subwords,
        "size": corpus.merges,
        "threshold": corpus.vocabulary_threshold,
    }
    if job.subwords_from:
        files = earlier.subword_files(job)
        options["size"] = {path.name: sha256_of(path) for path in files}
    if not corpus.joint_subwords:
        options["joint"] = False
    return options


def _learn_subwords(job: Job, train: Sequence[Path], tmp: Path) -> tuple[list[Path], str]:
    """Learn the model of each side, and say how large they are."""
    corpus, name = job.corpus, subwords.MODEL_FILE[job.corpus.subwords]
    if corpus.joint_subwords:
        models = [tmp / name] * 2
        learned = [subwords.learn(corpus.subwords, train, models[0], corpus.merges)]
    else:
        models = [tmp / f"{name}.{language}" for language in corpus.languages]
        learned = [
            subwords.learn(corpus.subwords, train[side : side + 1], model, corpus.merges)
            for side, model in enumerate(models)
        ]
    unit = "BPE merges" if corpus.subwords == "bpe" else "sentencepiece pieces"
    each = "" if corpus.joint_subwords else " a side"
    if min(learned) < corpus.merges:
        each += f" (of {corpus.merges:,} asked for: no pair occurs twice)"
    number = " and ".join(f"{count:,}" for count in dict.fromkeys(learned))
    return models, f"{number} {unit}{each}"


def _segment(job: Job, tmp: Path) -> str:
    corpus = job.corpus
    train = job.sides(job.out / "clean", "train")
    if job.subwords_from:
        models, said = earlier.take_subwords(job, tmp), f"those of {job.subwords_from.parent}"
    else:
        models, said = _learn_subwords(job, train, tmp)
    sizes = []
    for side, language in enumerate(corpus.languages):
        target, vocabulary = job.sides(tmp, "train")[side], tmp / f"vocab.{language}"
        # The vocabulary counts what comes out without a threshold.
        _segment_file(job, train[side], target, models[side])
        if not vocabulary.exists():  # of an earlier corpus, which then decides
            subwords.write_vocabulary(target, vocabulary)
        if corpus.vocabulary_threshold:
            _segment_file(job, train[side], target, models[side], vocabulary)
        for split in ("valid", "test"):
            source = job.sides(job.out / "tok", split)[side]
            target = job.sides(tmp, split)[side]
            _segment_file(job, source, target, models[side], vocabulary)
            _warn_of_long_lines(target)
        sizes.append(f"{text.count_lines(vocabulary):,} in {language}")
    return f"{said}; different subwords: {', '.join(sizes)}"


def _segment_file(
    job: Job, source: Path, target: Path, model: Path, vocabulary: Path | None = None
) -> None:
    """Segment a file; the threshold applies only where there is a vocabulary."""
    threshold = job.corpus.vocabulary_threshold if vocabulary else 0
    method = job.corpus.subwords
    make = functools.partial(subwords.make_segmenter, method, model, vocabulary, threshold)
    map_file(make, source, target, workers=job.workers, label=f"segment {target.name}")


def _warn_of_long_lines(path: Path) -> None:
    """Training text is filtered; of valid and test, fairseq refuses all for one long line."""
    long = sum(len(line.split()) >= POSITIONS for line in text.read_lines(path))
    if long:
        print(
            f"warning: {path.name}: {long:,} lines of {POSITIONS:,} subwords or more, which with "
            f"the line end exceed fairseq's default of {POSITIONS:,} positions; shorten them",
            file=sys.stderr,
        )


def _take_tokens(job: Job, tmp: Path) -> str:
    return describe(write_splits(job, job.corpus.tokenised, tmp))


def _take_subwords(job: Job, tmp: Path) -> str:
    corpus, codes = job.corpus, tmp / subwords.MODEL_FILE["bpe"]
    counts = write_splits(job, corpus.segmented, tmp, codes)
    for path, language in zip(job.sides(tmp, "train"), corpus.languages, strict=True):
        subwords.write_vocabulary(path, tmp / f"vocab.{language}")
    lacking = corpus.codes is not None and not codes.exists()
    return describe(counts) + ("; the archive has no merges" if lacking else "")


def _binarise_options(job: Job) -> dict:
    corpus = job.corpus
    options = {"joined": corpus.joined}
    if corpus.dictionary_size is not None:
        options["dictionary_size"] = corpus.dictionary_size
    if job.dictionary_from:
        paths = [earlier.dictionary_of(job, language) for language in corpus.languages]
        options = {"dictionaries": [sha256_of(path) for path in paths]}
    return options


def _binarise(job: Job, tmp: Path) -> str:
    corpus = job.corpus
    source, target = corpus.languages
    options = ["--source-lang", source, "--target-lang", target]
    if job.dictionary_from:
        options += ["--srcdict", str(earlier.dictionary_of(job, source))]
        options += ["--tgtdict", str(earlier.dictionary_of(job, target))]
    elif corpus.joined:
        options.append("--joined-dictionary")
    if corpus.dictionary_size is not None:
        size = str(corpus.dictionary_size)
        options += ["--nwordssrc", size, "--nwordstgt", size]
    prefixes = {split: job.out / "bpe" / split for split in SPLITS}
    preprocess(prefixes, tmp, job.workers, options)
    made = {
        "corpus": corpus.name,
        "source": source,
        "target": target,
        "tokenizer_languages": list(corpus.tokeniser_languages),
        "normalise": corpus.normalise,
        "aggressive_dashes": corpus.aggressive_dashes,
        "lowercase": corpus.lowercase,
        **corpus.script_rules,
        "subwords": corpus.subwords,
        "vocabulary_threshold": corpus.vocabulary_threshold,
        "post_process": subwords.POST_PROCESS[corpus.subwords],
        "pairs": {
            split: text.count_lines(job.sides(job.out / "bpe", split)[0]) for split in SPLITS
        },
        "files_checked": corpus.checked,
    }
    write_json(tmp / "corpus.json", made)
    sizes = [text.count_lines(tmp / f"dict.{language}.txt") for language in corpus.languages]
    if job.dictionary_from:
        shares = (
            f"{_share_outside(_words_of(tmp / f'dict.{language}.txt'), path):.2%} in {language}"
            for language, path in zip(
                corpus.languages, job.sides(job.out / "bpe", "train"), strict=True
            )
        )
        sizes = f"{sizes[0]:,} and {sizes[1]:,} types"
        return f"dictionaries of {job.dictionary_from}, {sizes}; unknown: {', '.join(shares)}"
    if corpus.joined:
        return f"joined dictionary of {sizes[0]:,} types"
    return f"dictionaries of {sizes[0]:,} and {sizes[1]:,} types"


def _binarise_text(job: Job, tmp: Path) -> str:
    corpus = job.corpus
    options = ["--only-source"]
    if corpus.min_count:
        options += ["--thresholdsrc", str(corpus.min_count)]
    prefixes = {split: job.sides(job.out / "raw", split)[0] for split in SPLITS}
    preprocess(prefixes, tmp, job.workers, options)
    known = _words_of(tmp / "dict.txt")
    words = sum(not word.startswith("madeupword") for word in known)  # fairseq pads to eights
    if corpus.min_count:
        check_kept(words, corpus.min_count)
    unknown = {split: _share_outside(known, path) for split, path in prefixes.items()}
    made = {
        "corpus": corpus.name,
        "kind": "language model",
        "min_count": corpus.min_count,
        "unknown_words": unknown,  # shares, those included that were <unk> already
    }
    write_json(tmp / "corpus.json", made | ({} if corpus.checked else {"files_checked": False}))
    shares = ", ".join(f"{share:.2%} of {split}" for split, share in unknown.items())
    return f"{words:,} different words, besides <unk> ({shares}) and the line end"


def _words_of(dictionary: Path) -> set[str]:
    return {line.rsplit(" ", 1)[0] for line in text.read_lines(dictionary)}


def _share_outside(known: set[str], path: Path) -> float:
    total = outside = 0
    for line in text.read_lines(path):
        words = line.split()
        total += len(words)
        outside += sum(word not in known for word in words)
    return round(outside / max(1, total), 6)
