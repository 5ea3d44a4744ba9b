"""Text prepared as an earlier corpus was: its rules, its subwords, its dictionaries."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import read_json, sha256_of
from diverse_mha.common.options import flag
from diverse_mha.corpora import subwords
from diverse_mha.corpora.corpus import Job

# What an earlier corpus decides; options of the command line.
_DECIDED = ("tokeniser", "normal_form", "lowercase", "subwords", "merges", "vocabulary_threshold")


def continued(job: Job, given: Mapping) -> Job:
    """Return a job with the rules of the earlier corpora that the command line names.

    Raises:
        UserError: If one is no prepared corpus, or ``given`` has options that it decides.
    """
    if folder := given.get("subwords_from"):
        for name in _DECIDED:
            if name in given:
                value = "" if given[name] is True else f" {given[name]}"
                raise UserError(f"{flag(name)}{value}: --subwords-from decides it; leave it out")
        job = _segmented_like(job, _root(folder, "subwords"))
    if folder := given.get("dictionary_from"):
        if "joined" in given and given["joined"] is False:
            raise UserError("--separate-dictionaries: --dictionary-from decides it; leave it out")
        job = replace(job, dictionary_from=_root(folder, "dictionary") / "bin")
        for language in job.corpus.languages:
            dictionary_of(job, language)
    return job


def _root(folder: Path, what: str) -> Path:
    """Return the folder of a corpus, of which ``bin`` may be given too."""
    root = folder.absolute().parent if folder.name == "bin" else folder
    if not (root / "bin").is_dir():
        raise UserError(f"--{what}-from {folder}: no prepared corpus; give a folder with bin/")
    return root


def _segmented_like(job: Job, root: Path) -> Job:
    note = root / "bin" / "corpus.json"
    try:
        made = read_json(note, "prepare that corpus anew")
        moses = dict(
            zip((made["source"], made["target"]), made["tokenizer_languages"], strict=True)
        )
        rules = {
            "normalise": made["normalise"],
            "aggressive_dashes": made["aggressive_dashes"],
            "lowercase": made["lowercase"],
            "subwords": made["subwords"],
            "vocabulary_threshold": made["vocabulary_threshold"],
            "tokeniser": made.get("tokeniser", "moses"),
            "normal_form": made.get("normal_form", "NFC"),
            "whole_letters": made.get("whole_letters", False),
        }
        name = subwords.MODEL_FILE[rules["subwords"]]
    except (OSError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"--subwords-from {root}: {note.name} is missing or damaged; prepare it anew"
        ) from None
    languages = zip(job.corpus.languages, job.corpus.tokeniser_languages, strict=True)
    rules["moses_languages"] = tuple(moses.get(code, rule) for code, rule in languages)
    rules["joint_subwords"] = (root / "bpe" / name).is_file()
    job = replace(job, corpus=replace(job.corpus, **rules), subwords_from=root / "bpe")
    for path in subword_files(job):
        if not path.is_file():
            raise UserError(f"--subwords-from {root}: has no bpe/{path.name}; give another corpus")
    return job


def subword_files(job: Job) -> list[Path]:
    """Return the files of an earlier corpus that decide how text is segmented."""
    corpus, folder = job.corpus, job.subwords_from
    name = subwords.MODEL_FILE[corpus.subwords]
    endings = [""] if corpus.joint_subwords else [f".{code}" for code in corpus.languages]
    files = [folder / f"{name}{ending}" for ending in endings]
    if corpus.vocabulary_threshold:
        files += [folder / f"vocab.{code}" for code in corpus.languages]
    return files


def take_subwords(job: Job, tmp: Path) -> list[Path]:
    """Copy those files into a folder and return the model of each side."""
    models = [tmp / shutil.copy(path, tmp / path.name).name for path in subword_files(job)]
    return [models[0]] * 2 if job.corpus.joint_subwords else models[:2]


def dictionary_of(job: Job, language: str) -> Path:
    """Return an earlier corpus' dictionary of a language; where all are one, any.

    Raises:
        UserError: If it has none.
    """
    folder = job.dictionary_from
    path = folder / f"dict.{language}.txt"
    if path.is_file():
        return path
    others = sorted(folder.glob("dict.*.txt"))
    if len({sha256_of(other) for other in others}) == 1:
        return others[0]
    there = ", ".join(other.name for other in others) or "none"
    raise UserError(f"--dictionary-from {folder}: has no {path.name}; there: {there}")
