"""The two steps from running text to fairseq's language-modelling data: fetch, binarise.

Each writes one folder below the output folder::

    raw/    train.txt, valid.txt and test.txt as published.
    bin/    what fairseq-train reads, with one dictionary (dict.txt), and corpus.json, which
            says how it was made.

The published corpora come tokenised and with rare words replaced by ``<unk>``; nothing is added
to that, so perplexities are per word, sentence ends counted, as the literature reports them.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import sha256_of
from diverse_mha.common.processes import sole_use
from diverse_mha.corpora import archives, download, published
from diverse_mha.corpora.binarise import preprocess
from diverse_mha.corpora.fetch import append_file
from diverse_mha.corpora.published import PublishedFile
from diverse_mha.corpora.running_text import SPLITS, TextCorpus
from diverse_mha.corpora.space import require_space
from diverse_mha.corpora.steps import Steps
from diverse_mha.corpora.text import read_lines

FOLDERS = ("raw", "bin")


@dataclass(frozen=True)
class TextJob:
    """One corpus on its way through the steps, with everything that was asked for.

    Attributes:
        corpus: What to prepare.
        out: The output folder.
        local: Folder that stands in for the download, or None.
        min_count: Words rarer than this in the training text become ``<unk>``; 0 keeps all.
        workers: Number of processes.
    """

    corpus: TextCorpus
    out: Path
    local: Path | None = None
    min_count: int = 0
    workers: int = 1


def prepare(job: TextJob) -> None:
    """Run the steps of a job that are not done yet, printing one line for each.

    Raises:
        UserError: If a file is missing, cut off or not the published one, or the disk is full.
    """
    with sole_use(job.out, option="--out"):
        steps = Steps(job.out, FOLDERS)
        steps.run("fetch", {"files": _identities(job)}, partial(_fetch, job))
        steps.run("binarise", {"min_count": job.min_count}, partial(_binarise, job))


def find_texts(files: Mapping[str, PublishedFile], folder: Path) -> dict[str, Path]:
    """Return the verified copy of every split in a folder.

    It may have its published name or be called ``SPLIT.txt``, each plain or packed as ``.gz``.

    Raises:
        UserError: If some are not there, naming all of these, or one is not the published text.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}, given by --from, is not a folder")
    found, missing = {}, []
    for split, file in files.items():
        names = _local_names(file, split)
        there = [folder / name for name in names if (folder / name).is_file()]
        if there:
            found[split] = there[0]
        else:
            missing.append(f"none of {', '.join(names)}")
    if missing:
        which = "one of them" if len(missing) == 1 else "one of each"
        raise UserError(f"{folder} has {'; '.join(missing)}; put {which} there")
    for split, path in found.items():
        published.verify(files[split], path)
    return found


def _local_names(file: PublishedFile, split: str) -> list[str]:
    plain = dict.fromkeys((file.name, Path(file.name).name, f"{split}.txt"))
    return [name + packing for name in plain for packing in ("", ".gz")]


def _identities(job: TextJob) -> list:
    """Say which files the corpus consists of, so that another version of one is noticed."""
    identities, files = [], job.corpus.files
    known = job.corpus.archive or all(file.text_checksum for file in files.values())
    own = find_texts(files, job.local) if job.local and not known else {}
    for split in SPLITS:
        file = files[split]
        # Where the text came from does not matter, as it is checked.
        identity = [split, file.name, file.text_checksum, file.lines]
        if split in own:
            identity.append(sha256_of(own[split]))
        identities.append(identity)
    if job.corpus.archive:
        identities.append(asdict(job.corpus.archive)["checksum"])
    return identities


def _fetch(job: TextJob, tmp: Path) -> str:
    """Fetch and check every file first, then unpack: nothing is unpacked unchecked."""
    require_space(job.out, job.corpus.space)
    counts, tokens = {}, {}
    for split, source in _texts(job, tmp / "unpacked").items():
        path = tmp / f"{split}.txt"
        append_file(path, source)
        counts[split], tokens[split] = _check_text(job.corpus, split, path)
    shutil.rmtree(tmp / "unpacked", ignore_errors=True)
    sizes = ", ".join(f"{count:,} {split}" for split, count in counts.items())
    return f"{sizes} lines; {tokens['train']:,} train tokens, line ends included"


def _texts(job: TextJob, scratch: Path) -> dict[str, Path]:
    """Return where the published text of each split lies; what is in an archive is unpacked."""
    files, archive = job.corpus.files, job.corpus.archive
    if job.local is not None and not job.local.is_dir():
        raise UserError(f"{job.local}, given by --from, is not a folder")
    if archive is None and job.local is None:
        return {s: download.download(file, job.out / "download") for s, file in files.items()}
    if archive is None or job.local is not None and not (job.local / archive.name).is_file():
        names = _local_names(files["train"], "train")
        if archive is not None and not any((job.local / name).is_file() for name in names):
            raise UserError(
                f"{job.local} has neither {archive.name} nor {names[0]}; put it there, "
                f"or leave out --from"
            )
        return find_texts(files, job.local)
    if job.local is None:
        path = download.download(archive, job.out / "download")
    else:
        path = job.local / archive.name
        published.verify(archive, path)
    unpacked = archives.unpack(path, {file.name: False for file in files.values()}, scratch)
    return {split: unpacked[file.name][file.name] for split, file in files.items()}


def _check_text(corpus: TextCorpus, split: str, path: Path) -> tuple[int, int]:
    """Return the number of lines and of tokens (words and line ends) of a text.

    Raises:
        UserError: If it is empty, is not UTF-8, or has another length than the published text.
    """
    lines = words = 0
    name = f"the {split} text ({corpus.files[split].name})"
    try:
        for line in read_lines(path):
            lines += 1
            words += len(line.split())
    except UserError:  # it would name our copy
        raise UserError(f"{name} is not UTF-8; convert it") from None
    if words == 0:
        raise UserError(f"{name} is empty; give one with a sentence a line")
    for what, found, expected in (
        ("lines", lines, corpus.files[split].lines),
        ("tokens", lines + words, corpus.tokens.get(split)),
    ):
        if expected is not None and found != expected:
            raise UserError(
                f"{name} has {found:,} {what}, expected {expected:,}: "
                f"not the published one; fetch it again"
            )
    return lines, lines + words


def _binarise(job: TextJob, tmp: Path) -> str:
    options = ["--only-source"]
    if job.min_count:
        options += ["--thresholdsrc", str(job.min_count)]
    prefixes = {split: job.out / "raw" / f"{split}.txt" for split in SPLITS}
    preprocess(prefixes, tmp, job.workers, options)
    made = {"corpus": job.corpus.name, "kind": "language model", "min_count": job.min_count}
    (tmp / "corpus.json").write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    entries = read_lines(tmp / "dict.txt")
    words = sum(not line.startswith("madeupword") for line in entries)  # fairseq pads to eights
    return f"{words:,} different words, besides <unk> and the line end"
