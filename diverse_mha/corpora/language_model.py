"""The two steps from running text to fairseq's language-modelling data: fetch, binarise.

Each writes one folder below the output folder::

    raw/    train.txt, valid.txt and test.txt as published.
    bin/    what fairseq-train reads, with one dictionary (dict.txt), and corpus.json, which
            says how it was made.

The published corpora come tokenised and with rare words replaced by ``<unk>``; nothing is added
to that, so perplexities are per word, sentence ends counted, as the literature reports them.
"""

import json
import os
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import download, published
from diverse_mha.corpora.published import PublishedFile
from diverse_mha.corpora.running_text import SPLITS, TextCorpus
from diverse_mha.corpora.space import require_space
from diverse_mha.corpora.steps import Steps, sole_use
from diverse_mha.corpora.text import read_lines

FOLDERS = ("raw", "bin")
BLOCK = 1 << 20


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
    with sole_use(job.out):
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
            identity.append(published.digest_of(own[split]))
        identities.append(identity)
    if job.corpus.archive:
        identities.append(asdict(job.corpus.archive)["checksum"])
    return identities


def _fetch(job: TextJob, tmp: Path) -> str:
    """Fetch and check every file first, then unpack: nothing is unpacked unchecked."""
    require_space(job.out, job.corpus.space)
    texts = _archived(job) if job.corpus.archive else None
    if texts is None:
        if job.local:
            files = find_texts(job.corpus.files, job.local)
        else:
            files = {
                split: download.download(file, job.out / "download")
                for split, file in job.corpus.files.items()
            }
        texts = {split: published.unpacked(path) for split, path in files.items()}
    counts, tokens = {}, {}
    for split in SPLITS:
        path = tmp / f"{split}.txt"
        with open(path, "wb") as file:
            last = b"\n"
            for block in texts[split]:
                file.write(block)
                last = block[-1:]
            file.write(b"" if last == b"\n" else b"\n")
        counts[split], tokens[split] = _check_text(job.corpus, split, path)
    sizes = ", ".join(f"{count:,} {split}" for split, count in counts.items())
    return f"{sizes} lines; {tokens['train']:,} train tokens, line ends included"


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


def _archived(job: TextJob) -> Mapping[str, Iterator[bytes]] | None:
    """Return the texts inside the archive, or None if --from has them unpacked."""
    archive = job.corpus.archive
    if job.local is None:
        path = download.download(archive, job.out / "download")
    elif not job.local.is_dir():
        raise UserError(f"{job.local}, given by --from, is not a folder")
    else:
        path = job.local / archive.name
        if not path.is_file():
            names = _local_names(job.corpus.files["train"], "train")
            if not any((job.local / name).is_file() for name in names):
                raise UserError(
                    f"{job.local} has neither {archive.name} nor {names[0]}; put it there, "
                    f"or leave out --from"
                )
            return None
        published.verify(archive, path)
    return {split: _member(path, file.name) for split, file in job.corpus.files.items()}


def _member(archive: Path, name: str) -> Iterator[bytes]:
    """Yield one member of a zip archive in blocks.

    Members are asked for by their full name and written where we say: no name from inside the
    archive ever becomes a path.
    """
    try:
        with zipfile.ZipFile(archive) as packed, packed.open(name) as file:
            if packed.getinfo(name).file_size > published.unpack_limit(archive):
                raise published.bomb(archive)
            while block := file.read(BLOCK):
                yield block
    except KeyError:
        raise UserError(f"{archive} has no {name} inside; fetch it again") from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UserError(f"{archive} is damaged or cut off ({error}); fetch it again") from None


def _binarise(job: TextJob, tmp: Path) -> str:
    command = [sys.executable, "-m", "fairseq_cli.preprocess", "--only-source"]
    for split in SPLITS:
        command += [f"--{split}pref", str(job.out / "raw" / f"{split}.txt")]
    command += ["--destdir", str(tmp), "--workers", str(job.workers)]
    if job.min_count:
        command += ["--thresholdsrc", str(job.min_count)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}  # the last line is to be the error
    result = subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=environment
    )
    if result.returncode != 0:
        lines = (result.stderr.strip() or result.stdout.strip() or "no output").splitlines()
        raise UserError(f"fairseq-preprocess failed (exit code {result.returncode}): {lines[-1]}")
    # Its log repeats every option and names the temporary folder; nothing reads it.
    (tmp / "preprocess.log").unlink(missing_ok=True)
    made = {"corpus": job.corpus.name, "kind": "language model", "min_count": job.min_count}
    (tmp / "corpus.json").write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    entries = read_lines(tmp / "dict.txt")
    words = sum(not line.startswith("madeupword") for line in entries)  # fairseq pads to eights
    return f"{words:,} different words, besides <unk> and the line end"
