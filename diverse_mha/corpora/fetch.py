"""The first step: get the published files, check them, and take the text out of them."""

import functools
import shutil
import sys
from collections.abc import Mapping
from dataclasses import astuple, replace
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import sha256_of
from diverse_mha.corpora import archives, download, text
from diverse_mha.corpora.binarise import MARKS
from diverse_mha.corpora.choose import hold_out, keep_pair, sample_pairs
from diverse_mha.corpora.corpus import SPLITS, Job, Parts, Side
from diverse_mha.corpora.markup import READERS
from diverse_mha.corpora.parallel_map import map_file
from diverse_mha.corpora.published import Member, PublishedFile, file_of
from diverse_mha.corpora.space import download_bytes, require_space, work_bytes

Found = Mapping[PublishedFile, Path]


def tokeniser_options(job: Job) -> dict:
    """Return what decides how text is tokenised; rules that are off are left out."""
    corpus = job.corpus
    options = {
        "languages": corpus.tokeniser_languages,
        "aggressive_dashes": corpus.aggressive_dashes,
        "lowercase": corpus.lowercase,
    }
    if not corpus.normalise:
        options["normalise"] = False
    if corpus.straight_apostrophes:
        options["straight_apostrophes"] = corpus.straight_apostrophes
    return options | corpus.script_rules


def fetch_options(job: Job) -> dict:
    """Return what decides the text that :func:`fetch` writes."""
    corpus = job.corpus
    options = {"files": _identities(job)}
    if corpus.sample is not None:
        options["sample"] = [corpus.sample, corpus.sample_seed]
    if corpus.valid_every is not None:
        options["valid_every"] = [corpus.valid_every, corpus.limits, tokeniser_options(job)]
    return options


def _identities(job: Job) -> list:
    """Say which files the corpus consists of, so that another version of one is noticed."""
    digests = {}
    if job.local and not all(file.known for file in job.corpus.published()):
        job = job.unpacked()
        unknown = [file for file in job.corpus.published() if not file.known]
        download.require_local(job.corpus.published(), job.local)
        digests = {file: sha256_of(download.find_local(file, job.local)) for file in unknown}
    return [
        [split, *astuple(_without_address(side)), digests.get(file_of(side))]
        for split, side in job.corpus.sides()
    ]


def _without_address(side: Side) -> Side:
    """Return a file or member without where it can be had, which decides nothing of its content."""
    if isinstance(side, Member):
        return replace(side, archive=_without_address(side.archive))
    return replace(side, urls=(), also=())


def _obtain(job: Job) -> Found:
    """Return where each published file lies, fetched and checked.

    Raises:
        UserError: If there is not enough room on the disk, or a file cannot be had or is not
            the published one.
    """
    corpus, found = job.corpus, {}
    needed = work_bytes(corpus, job.local) + (0 if job.local else download_bytes(corpus))
    if needed:
        require_space(job.out, needed)
    if job.local:
        download.require_local(corpus.published(), job.local)
    for file in corpus.published():
        found[file] = (
            download.find_local(file, job.local)
            if job.local
            else download.download(file, job.out / "download")
        )
        if corpus.checked and file.urls and not file.known:
            digest = sha256_of(found[file])
            print(f"note: no checksum of {file.name} is known; its sha256 is {digest}", flush=True)
    return found


def fetch(job: Job, tmp: Path) -> str:
    """Write the text of every split, as published, into a folder; return a summary.

    Every file is fetched and checked first: nothing is unpacked unchecked.
    """
    job = job.unpacked()
    corpus = job.corpus
    counts = write_splits(job, corpus.files, tmp)
    if corpus.running_text:
        return _check_tokens(job, tmp, counts)
    if corpus.sample is not None:
        whole, drawn = job.sides(tmp, "train"), job.sides(tmp, "drawn")
        total = sample_pairs(whole, drawn, corpus.sample, corpus.sample_seed)
        _replace(whole, drawn)
        counts["train"] = corpus.sample
        return f"{describe(counts)}; train drawn from {total:,}, seed {corpus.sample_seed}"
    if corpus.valid_every is not None:
        held = _hold_out(job, tmp)
        counts = {"train": counts["train"] - held, "valid": held, "test": counts["test"]}
    return describe(counts)


def describe(counts: Mapping[str, int], what: str = "pairs") -> str:
    """Write the sizes of the splits, such as "29,000 train, 1,014 valid, 1,000 test pairs"."""
    return ", ".join(f"{count:,} {split}" for split, count in counts.items()) + f" {what}"


def write_splits(job: Job, parts: Parts, tmp: Path, codes: Path | None = None) -> dict[str, int]:
    """Fetch some parts of the corpus, write their splits, and return the sizes of these.

    The merges of the corpus, if it has some, go to ``codes``.
    """
    scratch = tmp / "unpacked"
    wanted = [side for texts in parts.values() for sides in texts for side in sides]
    merges = job.corpus.codes if codes else None
    places = _unpack([*wanted, merges] if merges else wanted, _obtain(job), scratch)
    if merges and places[merges]:
        _append(codes, merges, places[merges])
    counts = {}
    for split in (split for split in SPLITS if split in parts):
        paths = job.sides(tmp, split)
        counts[split] = 0
        for sides in parts[split]:
            counts[split] += _check_sizes(
                [_append(path, side, places[side]) for path, side in zip(paths, sides, strict=True)]
            )
        for k, path in enumerate(paths):
            if not any(map(str.strip, text.read_lines(path))):
                names = ", ".join(name for sides in parts[split] for name in places[sides[k]])
                raise UserError(
                    f"the {split} text ({names}) is empty; give one with a sentence a line"
                )
    shutil.rmtree(scratch, ignore_errors=True)
    return counts


def _unpack(sides: list[Side], found: Found, scratch: Path) -> dict[Side, dict[str, Path]]:
    """Say for each text what to call the files that it is made of, and where they lie.

    The members of an archive are unpacked in one go.
    """
    places = {side: {str(found[side]): found[side]} for side in sides if side in found}
    members = [side for side in sides if isinstance(side, Member)]
    for number, archive in enumerate(dict.fromkeys(member.archive for member in members)):
        inside = [member for member in members if member.archive == archive]
        patterns = {member.name: member.optional for member in inside}
        unpacked = archives.unpack(found[archive], patterns, scratch / f"{number}")
        for member in inside:
            files = unpacked[member.name].items()
            places[member] = {f"{name} in {archive.name}": place for name, place in files}
    return places


def _append(path: Path, side: Side, places: Mapping[str, Path]) -> dict[str, int]:
    """Append the sentences of a text and return their number for each file it is made of."""
    sizes = {}
    with open(path, "a", encoding="utf-8", newline="\n") as file:
        for name, place in places.items():
            count = 0
            try:
                for line in READERS[side.markup](text.read_lines(place, name)):
                    # To fairseq a carriage return ends a line, wherever it stands.
                    file.write(line.replace("\r", " ") + "\n")
                    count += 1
            except ValueError as error:
                raise UserError(f"{name}: {error}") from None
            sizes[name] = count
    count = sum(sizes.values())
    if side.lines is not None and count != side.lines:
        raise UserError(f"{' and '.join(sizes)} has {count:,} sentences, expected {side.lines:,}")
    return sizes


def _check_sizes(sides: list[dict[str, int]]) -> int:
    """Return the length of a text; stop where two sides part, and name the files that do."""
    if len(set(map(len, sides))) > 1:
        source, target = (", ".join(side) for side in sides)
        raise UserError(f"the two sides differ: {source} on one, {target} on the other")
    for (source, size), *others in zip(*(side.items() for side in sides), strict=True):
        for target, other in others:
            if other != size:
                raise UserError(
                    f"the two sides differ in length: {source} has {size:,} lines, {target} has "
                    f"{other:,}; line n of one must translate line n of the other"
                )
    return sum(sides[0].values())


def _check_tokens(job: Job, folder: Path, lines: Mapping[str, int]) -> str:
    """Count words and line ends of text for a language model; return a summary.

    Raises:
        UserError: If they are not as many as the published text has, or the text has words that
            fairseq takes for marks of its own.
    """
    tokens = dict(lines)
    for split in tokens:
        (path,) = job.sides(folder, split)
        filled = marked = 0
        for number, line in enumerate(text.read_lines(path), start=1):
            words = line.split()
            if not MARKS.isdisjoint(words):
                raise UserError(
                    f"the {split} text has {next(filter(MARKS.__contains__, words))} in line "
                    f"{number:,}, a mark of fairseq's, which ends lines itself; take it out"
                )
            tokens[split] += len(words)
            filled += bool(words)
            marked += words[-1:] == ["<eos>"]
        if marked > filled / 2:
            print(
                f"warning: {marked:,} lines of the {split} text end in <eos>; fairseq ends lines "
                "itself, so each end is predicted twice: take it out",
                file=sys.stderr,
            )
    for split, expected in job.corpus.tokens.items():
        if tokens[split] != expected:
            raise UserError(
                f"the {split} text has {tokens[split]:,} tokens, expected {expected:,}: not the "
                "published one; fetch it again"
            )
    return f"{describe(lines, 'lines')}; {tokens['train']:,} train tokens, line ends included"


def _hold_out(job: Job, tmp: Path) -> int:
    """Move every n-th pair that passes the filter from train to valid."""
    corpus = job.corpus
    whole, tokens, rest, held = (
        job.sides(tmp, name) for name in ("train", "tokens", "rest", "valid")
    )
    tokenise_split(job, "train", whole, tokens)
    keep = functools.partial(keep_pair, **corpus.limits)
    count = hold_out(whole, tokens, rest, held, corpus.valid_every, keep)
    for path in tokens:
        path.unlink()
    _replace(whole, rest)
    return count


def tokenise_split(
    job: Job, split: str, sources: tuple[Path, Path], targets: tuple[Path, Path]
) -> int:
    """Tokenise both sides of a split and return its number of pairs."""
    count, corpus = 0, job.corpus
    for source, target, language in zip(sources, targets, corpus.tokeniser_languages, strict=True):
        make = functools.partial(
            text.make_tokeniser,
            language,
            normalise=corpus.normalise,
            aggressive=corpus.aggressive_dashes,
            lowercase=corpus.lowercase,
            straight_apostrophes=split in corpus.straight_apostrophes,
            tokeniser=corpus.tokeniser,
            normal_form=corpus.normal_form or "none",
            whole_letters=corpus.whole_letters,
        )
        label = f"tokenise {split}{source.suffix}"
        count = map_file(make, source, target, workers=job.workers, label=label)
    return count


def _replace(files: tuple[Path, ...], others: tuple[Path, ...]) -> None:
    for old, new in zip(files, others, strict=True):
        new.replace(old)
