"""The words of the two languages.

Stems are made up from syllables by a fixed seed, so the languages are the same in every corpus;
the corpus seed only decides what is said. About 250 stems a side. Within each list the first
words are common and the last ones rare.

Two kinds of ambiguity are built in. A homonym is one stem of Lumi with two meanings, each with
a stem of its own in Qorun: 14 pairs of nouns, which differ in kind (say a tool and a place), and
6 pairs of verbs, which differ in the kind of their object.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace

from diverse_mha.corpora.demo.chance import Chance
from diverse_mha.corpora.demo.meaning import (
    ANIMAL,
    ANIMATE,
    FOOD,
    GENDERS,
    INANIMATE,
    KINDS,
    PERSON,
    PLACE,
    TOOL,
    Adjective,
    Noun,
    Verb,
    Word,
)

SEED = 20
NOUNS_OF_A_KIND = 28
# The n-th noun of one kind shares its Lumi stem with the n-th of the other, for these n.
HOMONYM_KINDS = (
    ((PERSON, TOOL), (1, 8, 15)),
    ((PERSON, FOOD), (3, 10)),
    ((ANIMAL, PLACE), (2, 9, 16)),
    ((ANIMAL, TOOL), (5, 12)),
    ((FOOD, PLACE), (4, 11)),
    ((TOOL, PLACE), (6, 13)),
)
VERBS_OF_AN_OBJECT = 7
HOMONYM_VERBS = (
    ((PERSON, FOOD), (0, 4)),
    ((ANIMAL, TOOL), (1, 5)),
    ((FOOD, PLACE), (2,)),
    ((PERSON, TOOL), (3,)),
)


@dataclass(frozen=True)
class Lexicon:
    """All words, sorted by how they are used.

    Attributes:
        nouns: By kind.
        adjectives: All of them; each knows the kinds it is said of.
        transitive: Verbs by the kind of their object.
        moving: Verbs without object, said of people and animals.
        happening: Verbs without object, said of things and places.
        saying: Verbs with a that-clause.
        adverbs: Adverbs.
        relations: Prepositions.
    """

    nouns: dict[str, tuple[Noun, ...]]
    adjectives: tuple[Adjective, ...]
    transitive: dict[str, tuple[Verb, ...]]
    moving: tuple[Verb, ...]
    happening: tuple[Verb, ...]
    saying: tuple[Verb, ...]
    adverbs: tuple[Word, ...]
    relations: tuple[Word, ...]

    def meanings(self, lumi: str) -> list[Noun]:
        """Return the nouns that a stem of Lumi can be."""
        return [noun for nouns in self.nouns.values() for noun in nouns if noun.lumi == lumi]

    def verb_meanings(self, lumi: str) -> list[Verb]:
        """Return the verbs with an object that a stem of Lumi can be."""
        return [verb for verbs in self.transitive.values() for verb in verbs if verb.lumi == lumi]


class _Coiner:
    """Makes stems, none of them twice."""

    def __init__(self, chance: Chance, starts: str, vowels: str, ends: str):
        self.chance = chance
        self.starts, self.vowels, self.ends = starts.split(), vowels.split(), ends.split()
        self.taken = set()

    def stem(self) -> str:
        while True:
            stem = self.chance.pick(self.starts) + self.chance.pick(self.vowels)
            if self.chance.happens(0.6):
                stem += self.chance.pick(self.starts) + self.chance.pick(self.vowels)
            stem += self.chance.pick(self.ends)
            if stem not in self.taken:
                self.taken.add(stem)
                return stem


@functools.cache
def lexicon() -> Lexicon:
    """Return the words. They are the same at every call, in every corpus."""
    chance = Chance(SEED)
    lumi = _Coiner(
        chance, "b d f g k l m n p r s t v fl pr st", "a e i o u", "k l m n r t v z"
    ).stem
    qorun = _Coiner(
        chance, "b d g h j k q r w y br dr gh kh sh th", "a e i o u ö ü", "b d g kh lm nd rk sh th"
    ).stem
    nouns = {
        kind: [Noun(lumi(), qorun(), kind, chance.pick(GENDERS)) for _ in range(NOUNS_OF_A_KIND)]
        for kind in KINDS
    }
    transitive = {
        kind: [Verb(lumi(), qorun(), kind) for _ in range(VERBS_OF_AN_OBJECT)] for kind in KINDS
    }
    _share_stems(nouns, HOMONYM_KINDS)
    _share_stems(transitive, HOMONYM_VERBS)
    groups = [(ANIMATE, 12), (frozenset(KINDS), 8)]
    groups += [(frozenset({kind}), 6) for kind in sorted(INANIMATE)]
    adjectives = [Adjective(lumi(), qorun(), kinds) for kinds, size in groups for _ in range(size)]
    return Lexicon(
        nouns={kind: tuple(words) for kind, words in nouns.items()},
        adjectives=tuple(adjectives),
        transitive={kind: tuple(words) for kind, words in transitive.items()},
        moving=tuple(Verb(lumi(), qorun()) for _ in range(8)),
        happening=tuple(Verb(lumi(), qorun()) for _ in range(6)),
        saying=tuple(Verb(lumi(), qorun()) for _ in range(6)),
        adverbs=tuple(Word(lumi(), qorun()) for _ in range(8)),
        relations=tuple(Word(lumi(), qorun()) for _ in range(5)),
    )


def _share_stems(words: dict[str, list], homonyms: Iterable) -> None:
    """Give the second word of each pair the Lumi stem of the first."""
    for (one, other), ranks in homonyms:
        for rank in ranks:
            words[other][rank] = replace(words[other][rank], lumi=words[one][rank].lumi)
