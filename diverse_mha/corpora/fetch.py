"""The first step: get the published files, check them, and take the text out of them."""

import functools
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import sha256_of
from diverse_mha.corpora import archives, download, published, text
from diverse_mha.corpora.choose import hold_out, sample_pairs
from diverse_mha.corpora.corpus import SPLITS, Corpus, Pair
from diverse_mha.corpora.job import Job
from diverse_mha.corpora.markup import READERS
from diverse_mha.corpora.parallel_map import map_file
from diverse_mha.corpora.published import Member, PublishedFile
from diverse_mha.corpora.space import download_bytes, require_space, work_bytes

Parts = Mapping[str, tuple[Pair, ...]]


def limits(corpus: Corpus) -> dict:
    """Return the limits of the length filter, as :func:`text.keep_pair` takes them."""
    names = ("min_length", "max_length", "max_ratio")
    return {name: getattr(corpus, name) for name in names}


def tokeniser_options(job: Job) -> dict:
    """Return what decides how text is tokenised; rules that are off are left out."""
    corpus = job.corpus
    options = {
        "languages": job.tokeniser_languages,
        "aggressive_dashes": corpus.aggressive_dashes,
        "lowercase": job.lowercase,
    }
    if not corpus.normalise:
        options["normalise"] = False
    if corpus.straight_apostrophes:
        options["straight_apostrophes"] = corpus.straight_apostrophes
    return options


def fetch_options(job: Job) -> dict:
    """Return what decides the text that :func:`fetch` writes."""
    corpus = job.corpus
    options = {"files": _identities(job)}
    if job.sample is not None:
        options["sample"] = [job.sample, job.sample_seed]
    if corpus.valid_every is not None:
        options["valid_every"] = [corpus.valid_every, limits(corpus), tokeniser_options(job)]
    return options


def _identities(job: Job) -> list:
    """Say which files the corpus consists of, so that another version of one is noticed."""
    identities, digests = [], {}
    unknown = [f for f in job.corpus.published() if not (f.checksum or f.text_checksum)]
    if job.local and unknown:
        download.require_local(job.corpus.published(), job.local)
    for split, side in job.corpus.sides():
        file = side.archive if isinstance(side, Member) else side
        identity = [split, *asdict(file).values()]
        if isinstance(side, Member):
            identity += [side.name, side.markup, side.lines]
        if job.local and file in unknown:
            if file not in digests:
                digests[file] = sha256_of(download.find_local(file, job.local))
            identity.append(digests[file])
        identities.append(identity)
    return identities


def obtain(job: Job) -> dict[PublishedFile, Path]:
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
            else download.download(file, job.downloads)
        )
        if job.checked and file.urls and not (file.checksum or file.text_checksum):
            digest = sha256_of(found[file])
            print(f"note: no checksum of {file.name} is known; its sha256 is {digest}", flush=True)
    return found


def fetch(job: Job, tmp: Path) -> str:
    """Write the text of every split, as published, into a folder; return a summary.

    Every file is fetched and checked first: nothing is unpacked unchecked.
    """
    corpus = job.corpus
    counts = write_splits(job, corpus.files, obtain(job), tmp)
    if job.sample is not None:
        total = counts["train"]
        whole, drawn = job.sides(tmp, "all"), job.sides(tmp, "train")
        _rename(drawn, whole)
        sample_pairs(whole, drawn, job.sample, job.sample_seed)
        _delete(whole)
        counts["train"] = job.sample
        return f"{describe(counts)}; train drawn from {total:,}, seed {job.sample_seed}"
    if corpus.valid_every is not None:
        held = _hold_out(job, tmp)
        counts = {"train": counts["train"] - held, "valid": held, "test": counts["test"]}
    return describe(counts)


def describe(counts: Mapping[str, int]) -> str:
    """Write the sizes of the splits, such as "29,000 train, 1,014 valid, 1,000 test pairs"."""
    return ", ".join(f"{count:,} {split}" for split, count in counts.items()) + " pairs"


def write_splits(
    job: Job, parts: Parts, found: Mapping[PublishedFile, Path], tmp: Path
) -> dict[str, int]:
    """Write the splits of some parts of the corpus into a folder and return their sizes.

    Args:
        job: The corpus on its way.
        parts: What to write: the corpus' files, or what was published in another form.
        found: Where each published file lies.
        tmp: The folder.
    """
    members = [
        side for pairs in parts.values() for pair in pairs for side in pair
        if isinstance(side, Member)
    ]  # fmt: skip
    scratch = tmp / "unpacked"
    unpacked = _unpack(members, found, scratch)
    counts = {}
    for split in (split for split in SPLITS if split in parts):
        paths = job.sides(tmp, split)
        for path in paths:
            path.touch()
        for pair in parts[split]:
            sizes = []
            for path, side in zip(paths, pair, strict=True):
                if isinstance(side, Member):
                    sizes.append(_append_members(path, side, unpacked[side]))
                else:
                    sizes.append(append_file(path, found[side]))
            _check_sizes(*sizes)
        counts[split] = text.check_parallel(*paths)
    shutil.rmtree(scratch, ignore_errors=True)
    return counts


def write_text(member: Member, found: Mapping[PublishedFile, Path], path: Path) -> bool:
    """Write the text of one member to a file and say whether there is any."""
    scratch = path.with_name("unpacked")
    places = _unpack([member], found, scratch)[member]
    if places:
        _append_members(path, member, places)
    shutil.rmtree(scratch, ignore_errors=True)
    return bool(places)


def _unpack(
    members: list[Member], found: Mapping[PublishedFile, Path], scratch: Path
) -> dict[Member, dict[str, Path]]:
    """Unpack the members of each archive in one go, and say where the files now lie."""
    places = {}
    for number, archive in enumerate(dict.fromkeys(member.archive for member in members)):
        inside = [member for member in members if member.archive == archive]
        patterns = {member.name: member.optional for member in inside}
        by_pattern = archives.unpack(found[archive], patterns, scratch / f"{number}")
        places.update({member: by_pattern[member.name] for member in inside})
    return places


def _append_members(path: Path, member: Member, places: Mapping[str, Path]) -> dict[str, int]:
    """Append the sentences of a member and return their number for each file that matches it."""
    sizes = {}
    with open(path, "a", encoding="utf-8", newline="\n") as file:
        for name, place in places.items():
            count = 0
            try:
                for line in READERS[member.markup](_decoded(place)):
                    file.write(line + "\n")
                    count += 1
            except UserError as error:
                raise UserError(f"{name} in {member.archive.name}: {error}") from None
            sizes[f"{name} in {member.archive.name}"] = count
    count = sum(sizes.values())
    if member.lines is not None and count != member.lines:
        raise UserError(
            f"{member.name} in {member.archive.name} has {count:,} sentences, "
            f"expected {member.lines:,}"
        )
    return sizes


def _decoded(place: Path) -> Iterator[str]:
    try:
        yield from text.read_lines(place)
    except UserError:  # it would name a file that will soon be gone
        raise UserError("not UTF-8 text") from None


def append_file(path: Path, source: Path) -> dict[str, int]:
    """Append a file as it is and return its number of lines."""
    count, last = 0, b"\n"
    with open(path, "ab") as file:
        for block in published.unpacked(source):
            file.write(block)
            count += block.count(b"\n")
            last = block[-1:]
        if last != b"\n":
            file.write(b"\n")
            count += 1
    return {str(source): count}


def _check_sizes(sources: Mapping[str, int], targets: Mapping[str, int]) -> None:
    """Stop where two sides part, so that the message names the files that do not fit."""
    if len(sources) != len(targets):
        raise UserError(
            f"the two sides differ: {', '.join(sources)} on one, {', '.join(targets)} on the other"
        )
    for source, target in zip(sources, targets, strict=True):
        if sources[source] != targets[target]:
            raise UserError(
                f"the two sides differ in length: {source} has {sources[source]:,} lines, "
                f"{target} has {targets[target]:,}; line n of one must translate line n of the "
                f"other"
            )


def _hold_out(job: Job, tmp: Path) -> int:
    """Move every n-th pair that passes the filter from train to valid."""
    corpus = job.corpus
    whole, tokens = job.sides(tmp, "all"), job.sides(tmp, "tokens")
    _rename(job.sides(tmp, "train"), whole)
    tokenise_split(job, "train", whole, tokens)
    keep = functools.partial(text.keep_pair, **limits(corpus))
    held = hold_out(
        whole, tokens, job.sides(tmp, "train"), job.sides(tmp, "valid"), corpus.valid_every, keep
    )
    _delete(whole + tokens)
    text.check_parallel(*job.sides(tmp, "valid"))
    return held


def tokenise_split(
    job: Job, split: str, sources: tuple[Path, Path], targets: tuple[Path, Path]
) -> int:
    """Tokenise both sides of a split and return its number of pairs."""
    count = 0
    for source, target, language in zip(sources, targets, job.tokeniser_languages, strict=True):
        make = functools.partial(
            text.make_tokeniser,
            language,
            normalise=job.corpus.normalise,
            aggressive=job.corpus.aggressive_dashes,
            lowercase=job.lowercase,
            straight_apostrophes=split in job.corpus.straight_apostrophes,
        )
        label = f"tokenise {split}{source.suffix}"
        count = map_file(make, source, target, workers=job.workers, label=label)
    return count


def _rename(old: tuple[Path, ...], new: tuple[Path, ...]) -> None:
    for source, target in zip(old, new, strict=True):
        source.rename(target)


def _delete(paths: tuple[Path, ...]) -> None:
    for path in paths:
        path.unlink()
