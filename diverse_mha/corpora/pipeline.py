"""The five steps from a corpus to fairseq's data: fetch, tokenise, filter, subwords, binarise.

Each writes one folder below the output folder::

    raw/    train, valid and test as published: sentence by sentence, untouched.
            raw/test.<target> is the reference for sacreBLEU.
    tok/    tokenised; tok/test.<target> is the reference for tokenised BLEU.
    clean/  the training pairs that pass the length filter.
    bpe/    segmented into subwords, with the model and each side's vocabulary.
    bin/    what fairseq-train reads, and corpus.json, which says how it was made.
"""

import functools
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from diverse_mha.corpora import download, published, subwords, text
from diverse_mha.corpora.demo import corpus as demo
from diverse_mha.corpora.parallel_map import map_file
from diverse_mha.corpora.specs import SPLITS, Corpus
from diverse_mha.corpora.steps import Steps, sole_use
from diverse_mha.errors import UserError

FOLDERS = ("raw", "tok", "clean", "bpe", "bin")


@dataclass(frozen=True)
class Job:
    """One corpus on its way through the steps, with everything that was asked for.

    Attributes:
        corpus: What to prepare.
        out: The output folder.
        merges: Number of BPE merges or sentencepiece pieces.
        local: Folder that stands in for the download, or None.
        subwords: "bpe" or "sentencepiece".
        threshold: Subwords rarer than this in a language are split up again (bpe only).
        lowercase: Whether to lowercase.
        joined: Whether both languages share one dictionary.
        workers: Number of processes.
        pairs: Training pairs to generate (demo corpus only).
        seed: Seed of the generator (demo corpus only).
    """

    corpus: Corpus
    out: Path
    merges: int
    local: Path | None = None
    subwords: str = "bpe"
    threshold: int = 0
    lowercase: bool = False
    joined: bool = True
    workers: int = 1
    pairs: int = demo.PAIRS
    seed: int = demo.SEED

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.corpus.source, self.corpus.target

    def sides(self, folder: Path, split: str) -> tuple[Path, Path]:
        """Return a split's source and target file in a folder."""
        source, target = self.languages
        return folder / f"{split}.{source}", folder / f"{split}.{target}"


def prepare(job: Job) -> None:
    """Run all steps of a job that are not done yet, printing one line for each."""
    corpus = job.corpus
    with sole_use(job.out):
        steps = Steps(job.out, FOLDERS)
        if corpus.generated:
            options = {"version": demo.VERSION, "pairs": job.pairs, "seed": job.seed}
            steps.run("generate", options, functools.partial(_generate, job))
        else:
            steps.run("fetch", {"files": _identities(job)}, functools.partial(_fetch, job))
        options = {
            "languages": corpus.moses_languages or job.languages,
            "aggressive_dashes": corpus.aggressive_dashes,
            "lowercase": job.lowercase,
        }
        steps.run("tokenise", options, functools.partial(_tokenise, job))
        steps.run("filter", _limits(corpus), functools.partial(_filter, job))
        options = {"method": job.subwords, "size": job.merges, "threshold": job.threshold}
        steps.run("subwords", options, functools.partial(_segment, job))
        steps.run("binarise", {"joined": job.joined}, functools.partial(_binarise, job))


def _identities(job: Job) -> list:
    """Say which files the corpus consists of, so that another version of one is noticed."""
    identities = []
    for split in SPLITS:
        for pair in job.corpus.files[split]:
            for file in pair:
                identity = [split, *asdict(file).values()]
                if job.local and not (file.checksum or file.text_checksum):
                    identity.append(published.digest_of(download.find_local(file, job.local)))
                identities.append(identity)
    return identities


def _counts(counts: dict[str, int]) -> str:
    """Write the sizes of the splits, such as "29,000 train, 1,014 valid, 1,000 test pairs"."""
    return ", ".join(f"{count:,} {split}" for split, count in counts.items()) + " pairs"


def _generate(job: Job, tmp: Path) -> str:
    return _counts(demo.write_corpus(tmp, pairs=job.pairs, seed=job.seed))


def _fetch(job: Job, tmp: Path) -> str:
    """Fetch and check every file first, then unpack: nothing is unpacked unchecked."""
    counts = {}
    found = {
        file: download.find_local(file, job.local)
        if job.local
        else download.download(file, job.out / "download")
        for split in SPLITS
        for pair in job.corpus.files[split]
        for file in pair
    }
    for split in SPLITS:
        for side, target in enumerate(job.sides(tmp, split)):
            with open(target, "wb") as file:
                for pair in job.corpus.files[split]:
                    last = b"\n"
                    for block in published.unpacked(found[pair[side]]):
                        file.write(block)
                        last = block[-1:]
                    file.write(b"" if last == b"\n" else b"\n")
        counts[split] = text.check_parallel(*job.sides(tmp, split))
    return _counts(counts)


def _tokenise(job: Job, tmp: Path) -> str:
    counts = {}
    languages = job.corpus.moses_languages or job.languages
    for split in SPLITS:
        files = zip(
            job.sides(job.out / "raw", split), job.sides(tmp, split), languages, strict=True
        )
        for source, target, language in files:
            make = functools.partial(
                text.make_tokeniser,
                language,
                aggressive=job.corpus.aggressive_dashes,
                lowercase=job.lowercase,
            )
            label = f"tokenise {source.name}"
            counts[split] = map_file(make, source, target, workers=job.workers, label=label)
    return _counts(counts)


def _limits(corpus: Corpus) -> dict:
    names = ("min_length", "max_length", "max_ratio")
    return {name: getattr(corpus, name) for name in names}


def _filter(job: Job, tmp: Path) -> str:
    keep = functools.partial(text.keep_pair, **_limits(job.corpus))
    kept, total = text.filter_pairs(
        job.sides(job.out / "tok", "train"), job.sides(tmp, "train"), keep
    )
    return f"{kept:,} of {total:,} train pairs kept"


def _segment(job: Job, tmp: Path) -> str:
    model = tmp / subwords.MODEL_FILE[job.subwords]
    train = job.sides(job.out / "clean", "train")
    subwords.learn(job.subwords, train, model, job.merges)
    vocabularies = [tmp / f"vocab.{language}" for language in job.languages]

    def segment(split: str, source: Path, target: Path, vocabulary: Path, threshold: int) -> None:
        make = functools.partial(
            subwords.make_segmenter, job.subwords, model, vocabulary, threshold
        )
        label = f"segment {target.name}"
        map_file(make, source, target, workers=job.workers, label=label)

    sizes = []
    for side, vocabulary in enumerate(vocabularies):
        for split in SPLITS:
            source = train[side] if split == "train" else job.sides(job.out / "tok", split)[side]
            target = job.sides(tmp, split)[side]
            if split == "train":
                # The vocabulary counts what comes out without a threshold.
                segment(split, source, target, vocabulary, 0)
                subwords.write_vocabulary(target, vocabulary)
            if split != "train" or job.threshold:
                segment(split, source, target, vocabulary, job.threshold)
        sizes.append(f"{text.count_lines(vocabulary):,} in {job.languages[side]}")
    name = "BPE merges" if job.subwords == "bpe" else "sentencepiece pieces"
    return f"{job.merges:,} {name}; different subwords: {', '.join(sizes)}"


def _binarise(job: Job, tmp: Path) -> str:
    source, target = job.languages
    command = [sys.executable, "-m", "fairseq_cli.preprocess"]
    command += ["--source-lang", source, "--target-lang", target]
    for split in SPLITS:
        command += [f"--{split}pref", str(job.out / "bpe" / split)]
    command += ["--destdir", str(tmp), "--workers", str(job.workers)]
    if job.joined:
        command.append("--joined-dictionary")
    result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if result.returncode != 0:
        lines = (result.stderr.strip() or result.stdout.strip() or "no output").splitlines()
        raise UserError(f"fairseq-preprocess failed (exit code {result.returncode}): {lines[-1]}")
    # Its log repeats every option and names the temporary folder; nothing reads it.
    (tmp / "preprocess.log").unlink(missing_ok=True)
    made = {
        "corpus": job.corpus.name,
        "source": source,
        "target": target,
        "tokenizer_languages": list(job.corpus.moses_languages or job.languages),
        "aggressive_dashes": job.corpus.aggressive_dashes,
        "lowercase": job.lowercase,
        "subwords": job.subwords,
        "post_process": subwords.POST_PROCESS[job.subwords],
    }
    (tmp / "corpus.json").write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    sizes = [text.count_lines(tmp / f"dict.{language}.txt") for language in job.languages]
    if job.joined:
        return f"joined dictionary of {sizes[0]:,} types"
    return f"dictionaries of {sizes[0]:,} and {sizes[1]:,} types"
