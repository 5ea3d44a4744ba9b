"""The demo corpus: sentences of two invented languages, Lumi and Qorun, generated from a seed.

It is small, but has four difficulties of real languages:

- agreement: article and adjective agree with the noun in gender, number and case. A verb agrees
  with its subject in number and, in the past tense, in gender. Lumi shows only number.
- word order: in Qorun, an adjective follows its noun. A preposition of Lumi becomes a postposition.
  In a statement, an adverb comes first, and the verb follows it. A question begins with the verb,
  and a subordinate clause ends with the verb.
- inflection: Qorun joins prefixes and endings to its stems, so the test set has word forms that are
  new, but consist of known parts.
- context: a pronoun takes its gender from a noun in another clause.

In this example, the pronoun "ze" is feminine in Qorun ("sia"), because "sozo" is::

    la soz-o mur-o-s la limul-o kar ze pigiv-i-s.
    h-ia brükhud-a vü-kokh-it  h-u juköth-e,   vol     s-ia ge-jokhad-ia.
    the  soz.F     will-mur-it the limul.N.acc because she  did-pigiv-she

The verb shows the gender, too, even before its subject::

    un soz-o doban-i-s mav-e.
    thob-li ge-khob-ia    ek-a brükhud-a.
    mav-ly  did-doban-she a    soz.F

(The corpus has no hyphens.) The functions are rules of a synchronous grammar: each draws a part of
a sentence in both languages at once.
"""

import argparse
import functools
import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from diverse_mha.corpora.text import write_lines

MIN_WORDS, MAX_WORDS = 4, 20
VERSION = 2  # increased when a change of the code changes the sentences of a seed
SOURCE, TARGET = "lm", "qo"

NOMINATIVE, ACCUSATIVE, OBLIQUE = range(3)  # columns of NOUN and AGREEING
PLURAL = "plural"
# (gender, True if plural) -> endings of nouns. The article "a" (ek-) has the singular endings.
NOUN = {
    ("m", False): ("", "en", "um"),
    ("f", False): ("a", "an", "as"),
    ("n", False): ("e", "e", "et"),
    ("m", True): ("ar", "aren", "arum"),
    ("f", True): ("ir", "iren", "irim"),
    ("n", True): ("u", "u", "utum"),
}
# Gender -> endings of adjectives, "the" (h-) and the pronoun (s-). The plural has no genders.
AGREEING = {
    "m": ("or", "on", "om"),
    "f": ("ia", "in", "im"),
    "n": ("u", "u", "um"),
    PLURAL: ("es", "ens", "ems"),
}
PREFIX = {"a": "", "i": "ge", "o": "vü"}  # Lumi's tense ending (i: past) -> prefix of Qorun's verb
# Kind -> number of stems. Verbs: "do" takes an object, "go" takes none, "say" takes a clause.
WORDS = {"noun": 180, "adjective": 40, "relation": 5, "adverb": 8, "do": 40, "go": 14, "say": 6}
WORDS_SEED = 20  # fixed: all corpora have the same vocabulary
# Beginnings, vowels and endings of stems.
LUMI = ("b d f g k l m n p r s t v fl pr st".split(), "aeiou", "klmnrtvz")
QORUN = (
    "b d g h j k q r w y br dr gh kh sh th".split(),
    "aeiouöü",
    "b d g kh lm nd rk sh th".split(),
)


class Chance:
    """Seeded choices by ``random()``, whose values Python guarantees."""

    def __init__(self, seed: int):
        self._random = random.Random(seed).random

    def happens(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random() < probability

    def pick(self, items: Sequence):
        """Return one of the items, all equally likely."""
        return items[int(self._random() * len(items))]

    def pick_early(self, items: Sequence):
        """Return one of N items; the n-th has a probability of about 1 / (2 sqrt(nN)).

        So a few words are frequent and many are rare, as in natural languages.
        """
        place = self._random()
        return items[int(place * place * len(items))]


class Word(NamedTuple):
    """A stem in each language, and a noun's gender in Qorun."""

    lumi: str
    qorun: str
    gender: str


class Token(str):
    """A word of a sentence. In Qorun, ``of`` holds the words of Lumi that it translates."""

    of: tuple["Token", ...] = ()


def translated(lumi: str, qorun: str) -> tuple[Token, Token]:
    """Return a word and its translation as linked tokens."""
    word, translation = Token(lumi), Token(qorun)
    translation.of = (word,)
    return word, translation


class Pair(NamedTuple):
    """A sentence in each language, and the word alignment, in which punctuation marks are words."""

    lumi: str
    qorun: str
    links: tuple[tuple[int, int], ...]  # positions of words, from 0, ascending


class Part(NamedTuple):
    """A part of a sentence in each language."""

    lumi: list[Token]
    qorun: list[Token]
    agrees: str = ""  # gender of a subject in Qorun, or "plural"


@functools.cache
def lexicon() -> dict[str, list[Word]]:
    """Return kind -> words, nouns and verbs with frequent ones first; all stems differ."""
    chance, taken = Chance(WORDS_SEED), set()

    def stem(starts: Sequence[str], vowels: str, ends: Sequence[str]) -> str:
        while True:
            syllables = range(1 + chance.happens(0.6))
            made = "".join(chance.pick(starts) + chance.pick(vowels) for _ in syllables)
            made += chance.pick(ends)
            if made not in taken:
                taken.add(made)
                return made

    return {
        kind: [Word(stem(*LUMI), stem(*QORUN), chance.pick("mfn")) for _ in range(size)]
        for kind, size in WORDS.items()
    }


def noun_phrase(chance: Chance, case: int) -> Part:
    """Draw an article, a noun and perhaps an adjective; Qorun has no "a" in the plural."""
    noun = chance.pick_early(lexicon()["noun"])
    plural, definite = chance.happens(0.35), chance.happens(0.6)
    agrees, number = (PLURAL, "i") if plural else (noun.gender, "")
    if definite:
        article = translated("la", "h" + AGREEING[agrees][case])
    elif plural:
        article = (Token("un" + number),)
    else:
        article = translated("un", "ek" + NOUN[noun.gender, False][case])
    ending = NOUN[noun.gender, plural][case]
    thing = translated(noun.lumi + "o" + number, noun.qorun + ending)
    lumi, qorun = [article[0]], [*article[1:], thing[1]]
    if chance.happens(0.3):
        word, ending = chance.pick(lexicon()["adjective"]), AGREEING[agrees][case]
        adjective = translated(word.lumi + "a" + number, word.qorun + ending)
        lumi.append(adjective[0])
        qorun.append(adjective[1])
    return Part([*lumi, thing[0]], qorun, agrees)


def pronoun(noun: Part) -> Part:
    """Return the pronoun for a subject: "ze" or "zen" in Lumi, with the gender in Qorun."""
    lumi = "zen" if noun.agrees == PLURAL else "ze"
    ze, translation = translated(lumi, "s" + AGREEING[noun.agrees][NOMINATIVE])
    return Part([ze], [translation], noun.agrees)


def verb(chance: Chance, kind: str, agrees: str) -> Part:
    """Draw a verb of a kind, its tense and its negation; ``agrees`` is as in the subject."""
    word, tense = chance.pick_early(lexicon()[kind]), chance.pick("aio")
    ending = AGREEING[agrees][NOMINATIVE] if tense == "i" else "it"
    number = "s"
    if agrees == PLURAL:
        ending, number = "ent", "n"
    denied = chance.happens(0.12)
    qorun = PREFIX[tense] + word.qorun + ending + ("nek" if denied else "")
    action, translation = translated(word.lumi + tense + number, qorun)
    if not denied:
        return Part([action], [translation])
    translation.of = Token("ne"), action
    return Part([*translation.of], [translation])


def clause(chance: Chance, form: str, subject: Part | None = None) -> tuple[Part, Part]:
    """Draw a clause, with ``subject`` if given; return the clause and its subject.

    ``form`` is "statement", "question" or "subordinate", and determines the word order in Qorun.
    """
    subject = subject or noun_phrase(chance, NOMINATIVE)
    transitive = chance.happens(0.7)
    action = verb(chance, "do" if transitive else "go", subject.agrees)
    lumi, rest, adverb = [*subject.lumi, *action.lumi], [], []
    if transitive:
        thing = noun_phrase(chance, ACCUSATIVE)
        lumi += thing.lumi
        rest += thing.qorun
    if chance.happens(0.3):
        relation, place = chance.pick(lexicon()["relation"]), noun_phrase(chance, OBLIQUE)
        before, after = translated(relation.lumi + "u", relation.qorun + "ö")
        lumi += [before, *place.lumi]
        rest += [*place.qorun, after]
    if chance.happens(0.3):
        word = chance.pick(lexicon()["adverb"])
        original, translation = translated(word.lumi + "e", word.qorun + "li")
        lumi.append(original)
        adverb = [translation]
    if form == "subordinate":
        qorun = [*subject.qorun, *rest, *adverb, *action.qorun]
    elif form == "question":
        qorun = [*action.qorun, *subject.qorun, *adverb, *rest]
    elif adverb:
        qorun = [*adverb, *action.qorun, *subject.qorun, *rest]
    else:
        qorun = [*subject.qorun, *action.qorun, *rest]
    return Part(lumi, qorun), subject


def sentence(chance: Chance) -> Pair:
    """Draw a report ("that ..."), a question, or a statement, perhaps with a reason."""
    ends = "."
    if chance.happens(0.2):
        speaker = noun_phrase(chance, NOMINATIVE)
        says, (report, _) = verb(chance, "say", speaker.agrees), clause(chance, "subordinate")
        that, translation = translated("ke", "dash")
        lumi = [*speaker.lumi, *says.lumi, that, *report.lumi]
        qorun = [*speaker.qorun, *says.qorun, Token(","), translation, *report.qorun]
    elif chance.happens(0.15):
        (lumi, qorun, _), _ = clause(chance, "question")
        lumi, ends = [Token("cu"), *lumi], "?"
    else:
        (lumi, qorun, _), subject = clause(chance, "statement")
        if chance.happens(0.3):
            reason, _ = clause(chance, "subordinate", pronoun(subject))
            because, translation = translated("kar", "vol")
            lumi += [because, *reason.lumi]
            qorun += [Token(","), translation, *reason.qorun]
    end, translation = translated(ends, ends)
    links = _links([*lumi, end], [*qorun, translation])
    return Pair(" ".join(lumi) + ends, " ".join(qorun).replace(" ,", ",") + ends, links)


def _links(lumi: Sequence[Token], qorun: Sequence[Token]) -> tuple[tuple[int, int], ...]:
    places = {id(word): place for place, word in enumerate(lumi)}
    links = ((places[id(of)], place) for place, word in enumerate(qorun) for of in word.of)
    return tuple(sorted(links))


def sentence_pairs(count: int, seed: int) -> list[Pair]:
    """Return different sentence pairs of 4 to 20 words a side.

    A larger count with the same seed only adds pairs.
    """
    chance, pairs = Chance(seed), {}
    while len(pairs) < count:
        pair = sentence(chance)
        lengths = len(pair.lumi.split()), len(pair.qorun.split())
        if MIN_WORDS <= min(lengths) and max(lengths) <= MAX_WORDS:
            pairs.setdefault(pair.lumi, pair)
    return list(pairs.values())


def _splits(pairs: int, seed: int) -> dict[str, list[Pair]]:
    """Return split -> pairs; valid and test each have a twentieth of the number in train."""
    part = pairs // 20
    everything = sentence_pairs(pairs + 2 * part, seed)
    ends = {"train": (0, pairs), "valid": (pairs, pairs + part), "test": (pairs + part, None)}
    return {split: everything[start:end] for split, (start, end) in ends.items()}


def write_corpus(out: Path, *, pairs: int, seed: int) -> None:
    """Write train, valid and test as ``SPLIT.lm`` and ``SPLIT.qo``.

    ``SPLIT.align`` has the gold word alignments in Pharaoh format (``0-0 1-2``, Lumi first), in
    which punctuation marks are words. "," of Qorun has no original; "cu" and the plural article
    "uni" of Lumi have no translation.
    """
    out.mkdir(parents=True, exist_ok=True)
    for split, drawn in _splits(pairs, seed).items():
        sources, targets, links = zip(*drawn, strict=True)
        write_lines(out / f"{split}.{SOURCE}", sources)
        write_lines(out / f"{split}.{TARGET}", targets)
        pharaoh = (" ".join(f"{source}-{target}" for source, target in own) for own in links)
        write_lines(out / f"{split}.align", pharaoh)


def labelled(code: str, sentences: Iterable[str]) -> list[str]:
    """Return lines of split (tr, va or te), label (class of length, 0 to 5) and sentence."""
    return [
        "\t".join((code, str(sum(len(text.split()) >= edge for edge in (6, 8, 10, 12, 14))), text))
        for text in sentences
    ]


def write_sentences(out: Path, form: str, *, pairs: int, seed: int) -> None:
    """Write the Qorun sentences of a corpus, with spaces before punctuation marks.

    Args:
        out: the folder.
        form: ``text`` writes files ``SPLIT.txt``; ``labelled`` writes one file in SentEval's form.
        pairs: number of training sentences.
        seed: random seed of the sentences.
    """
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for split, drawn in _splits(pairs, seed).items():
        sentences = [re.sub("([,.?])", r" \1", pair.qorun) for pair in drawn]
        if form == "text":
            write_lines(out / f"{split}.txt", sentences)
        lines += labelled(split[:2], sentences)
    if form == "labelled":
        write_lines(out / "labelled.txt", lines)


def main() -> None:
    """Write a corpus: ``python -m diverse_mha.corpora.demo --pairs=N --seed=N FOLDER``."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--version", type=int, choices=[VERSION], default=VERSION)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--form", choices=("pairs", "text", "labelled"), default="pairs")
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    size = {"pairs": args.pairs, "seed": args.seed}
    if args.form == "pairs":
        write_corpus(args.folder, **size)
    else:
        write_sentences(args.folder, args.form, **size)


if __name__ == "__main__":
    main()
