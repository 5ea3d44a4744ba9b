"""What a sentence of the demo corpus means, before either language puts it into words.

Both languages are written from these trees, so whatever they express is there for both, and
whatever the target has to know (which sense of a homonym, the gender behind a pronoun) follows
from the tree.
"""

from __future__ import annotations

from dataclasses import dataclass

PERSON, ANIMAL, FOOD, TOOL, PLACE = KINDS = ("person", "animal", "food", "tool", "place")
ANIMATE = frozenset({PERSON, ANIMAL})
INANIMATE = frozenset({FOOD, TOOL, PLACE})
TENSES = ("present", "past", "future")
GENDERS = ("m", "f", "n")


@dataclass(frozen=True)
class Word:
    """A stem in each language; by itself an adverb, or a preposition that Qorun puts last."""

    lumi: str
    qorun: str


@dataclass(frozen=True)
class Noun(Word):
    """A noun: what kind of thing it is, and its gender in Qorun."""

    kind: str
    gender: str


@dataclass(frozen=True)
class Adjective(Word):
    """An adjective and the kinds of things it is said of."""

    kinds: frozenset[str]


@dataclass(frozen=True)
class Verb(Word):
    """A verb, and the kind that its object must be (None: no object)."""

    object: str | None = None


@dataclass(frozen=True)
class Speaker:
    """A pronoun of the first or second person. Qorun leaves it out: the verb tells."""

    person: int
    plural: bool


@dataclass(frozen=True)
class NounPhrase:
    """A noun with its number, article, and possibly an adjective and a relative clause."""

    noun: Noun
    plural: bool
    definite: bool
    adjective: Adjective | None = None
    relative: Predicate | None = None
    person: int = 3

    @property
    def gender(self) -> str:
        """Gender in Qorun."""
        return self.noun.gender


@dataclass(frozen=True)
class Pair:
    """Two noun phrases joined by "and": plural, and feminine only if both are."""

    first: NounPhrase
    second: NounPhrase
    person: int = 3
    plural: bool = True

    @property
    def gender(self) -> str:
        """Gender in Qorun."""
        return "f" if self.first.gender == self.second.gender == "f" else "m"


@dataclass(frozen=True)
class Anaphor:
    """A pronoun of the third person, which takes number and gender from what it stands for."""

    referent: NounPhrase | Pair
    person: int = 3

    @property
    def plural(self) -> bool:
        """Number, in both languages."""
        return self.referent.plural

    @property
    def gender(self) -> str:
        """Gender in Qorun; Lumi's pronoun does not show it."""
        return self.referent.gender


@dataclass(frozen=True)
class Location:
    """A noun phrase with a preposition."""

    relation: Word
    place: NounPhrase


@dataclass(frozen=True)
class Predicate:
    """All of a clause but its subject. With ``quality`` and no verb: "is <adjective>"."""

    tense: str
    negated: bool
    verb: Verb | None = None
    quality: Adjective | None = None
    object: NounPhrase | Anaphor | None = None
    location: Location | None = None
    adverb: Word | None = None
    content: Clause | None = None


@dataclass(frozen=True)
class Clause:
    """A subject and what is said of it."""

    subject: Speaker | NounPhrase | Pair | Anaphor
    predicate: Predicate


@dataclass(frozen=True)
class Sentence:
    """A main clause, asked or stated, possibly with a because-clause."""

    main: Clause
    question: bool = False
    reason: Clause | None = None
