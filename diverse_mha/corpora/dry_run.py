"""What a preparation would do, in words: for ``--dry-run``, without network or writing."""

import json
from collections.abc import Iterator

from diverse_mha.corpora.corpus import Job
from diverse_mha.corpora.pipeline import steps_of
from diverse_mha.corpora.published import Member, PublishedFile
from diverse_mha.corpora.space import download_bytes, human, work_bytes


def describe_job(job: Job) -> Iterator[str]:
    """Yield the lines that say what would be fetched, how much room is needed, and the steps."""
    job = job.unpacked()
    corpus = job.corpus
    yield f"corpus: {corpus.about}"
    for statement in corpus.counts:
        yield f"pairs, {statement.split}: {statement.stated} ({statement.who})"
    for file in corpus.published():
        yield from _describe_file(job, file)
    download = 0 if job.local else download_bytes(corpus)
    work = work_bytes(corpus, job.local)
    if download + work:
        parts = f"{human(download)} downloads, {human(work)} steps"
        yield f"disk: about {human(download + work)} in {job.out} ({parts})"
    for number, (folder, title, options, _) in enumerate(steps := steps_of(job), 1):
        chosen = _fetch_choices(job) if title == "fetch" else options(job)
        said = "".join(
            f", {name} {value if isinstance(value, str) else json.dumps(value)}"
            for name, value in chosen.items()
        )
        yield f"[{number}/{len(steps)}] {title}: {folder}/{said}"


def _fetch_choices(job: Job) -> dict:
    choices, corpus = {}, job.corpus
    if corpus.sample is not None:
        choices |= {"sample": corpus.sample, "seed": corpus.sample_seed}
    if corpus.valid_every is not None:
        choices["valid"] = f"one in {corpus.valid_every} of the pairs that pass the filter"
    return choices


def _describe_file(job: Job, file: PublishedFile) -> Iterator[str]:
    size = f"{file.size:,} bytes" if file.size is not None else "size not published"
    checksum = file.checksum or file.text_checksum or "checksum not known"
    yield f"file: {file.name} ({f'{size}, {checksum}' if job.corpus.checked else 'unchecked'})"
    if job.local:
        path = file.in_folder(job.local)
        there = "is there" if path else "IS MISSING"
        yield f"    from {path or job.local / file.name}, which {there}"
    else:
        for number, url in enumerate(file.urls):
            yield f"    {'or' if number else 'from'} {url}"
    inside = {}
    for split, side in job.corpus.sides():
        if isinstance(side, Member) and side.archive == file:
            inside.setdefault(split, []).append(side.name)
    for split, names in inside.items():
        yield f"    {split}: {', '.join(names)}"
