"""Lumi, the source language: few endings, and the verb always follows its subject.

Noun -o, adjective -a, both with -i in the plural (kano, kanoi); adjectives stand before the
noun. Verbs end in a vowel for the tense (a, i, o: present, past, future) and s or n for the
number of the subject. Nothing shows gender. A clause is subject, verb, object, place, adverb,
whether it is a main clause or not.
"""

from diverse_mha.corpora.demo.meaning import (
    Anaphor,
    Clause,
    NounPhrase,
    Pair,
    Predicate,
    Sentence,
    Speaker,
)

TENSE = {"present": "a", "past": "i", "future": "o"}
NUMBER = {False: "s", True: "n"}
SPEAKERS = {(1, False): "mi", (2, False): "tu", (1, True): "nu", (2, True): "vu"}
BE, NOT, AND, THAT, WHO, BECAUSE, WHETHER = "est", "ne", "e", "ke", "ki", "kar", "cu"


def sentence(meaning: Sentence) -> str:
    """Put a sentence into Lumi."""
    words = clause(meaning.main)
    if meaning.question:
        return " ".join([WHETHER, *words]) + "?"
    if meaning.reason is not None:
        words += [BECAUSE, *clause(meaning.reason)]
    return " ".join(words) + "."


def clause(meaning: Clause) -> list[str]:
    """Put a clause into words."""
    subject = meaning.subject
    return [*nominal(subject), *predicate(meaning.predicate, subject.plural)]


def predicate(meaning: Predicate, plural: bool) -> list[str]:
    """Put a predicate into words; ``plural`` is the number of its subject."""
    stem = BE if meaning.verb is None else meaning.verb.lumi
    words = [NOT] if meaning.negated else []
    words.append(stem + TENSE[meaning.tense] + NUMBER[plural])
    if meaning.quality is not None:
        words.append(meaning.quality.lumi + ("ai" if plural else "a"))
    if isinstance(meaning.object, Anaphor):
        words.append("zenem" if meaning.object.plural else "zem")
    elif meaning.object is not None:
        words += nominal(meaning.object)
    if meaning.location is not None:
        words += [meaning.location.relation.lumi + "u", *nominal(meaning.location.place)]
    if meaning.adverb is not None:
        words.append(meaning.adverb.lumi + "e")
    if meaning.content is not None:
        words += [THAT, *clause(meaning.content)]
    return words


def nominal(meaning: Speaker | NounPhrase | Pair | Anaphor) -> list[str]:
    """Put a subject or object into words."""
    if isinstance(meaning, Speaker):
        return [SPEAKERS[meaning.person, meaning.plural]]
    if isinstance(meaning, Anaphor):
        return ["zen" if meaning.plural else "ze"]
    if isinstance(meaning, Pair):
        return [*nominal(meaning.first), AND, *nominal(meaning.second)]
    plural = "i" if meaning.plural else ""
    words = ["la" if meaning.definite else "un" + plural]
    if meaning.adjective is not None:
        words.append(meaning.adjective.lumi + "a" + plural)
    words.append(meaning.noun.lumi + "o" + plural)
    if meaning.relative is not None:
        words += [WHO, *predicate(meaning.relative, meaning.plural)]
    return words
