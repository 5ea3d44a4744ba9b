"""Think of sentences: draw meanings that both languages can express without doubt.

A homonym is only used where the rest of the sentence decides its meaning: the verb, by the kind
of subject or object it takes; the preposition, which wants a place; or the adjective, by what it
is said of.
"""

from dataclasses import replace

from diverse_mha.corpora.demo.chance import Chance
from diverse_mha.corpora.demo.lexicon import Lexicon
from diverse_mha.corpora.demo.meaning import (
    ANIMATE,
    INANIMATE,
    KINDS,
    PERSON,
    PLACE,
    TENSES,
    Adjective,
    Anaphor,
    Clause,
    Location,
    Noun,
    NounPhrase,
    Pair,
    Predicate,
    Sentence,
    Speaker,
    Verb,
)


class Sampler:
    """Draws meanings from a lexicon.

    Args:
        lexicon: The words.
        chance: The stream of choices.
    """

    def __init__(self, lexicon: Lexicon, chance: Chance):
        self.lexicon = lexicon
        self.chance = chance

    def sentence(self) -> Sentence:
        """Draw a sentence: a statement, a question, or a statement with a reason or a report."""
        happens = self.chance.happens
        if happens(0.2):
            return Sentence(self._report())
        main = self._clause(speakers=0.25)
        if happens(0.15):
            return Sentence(main, question=True)
        if happens(0.35) and not isinstance(main.subject, Speaker):
            return Sentence(main, reason=self._reason(main))
        return Sentence(main)

    def _report(self) -> Clause:
        """Draw "somebody says that ..."."""
        subject = self._person()
        verb = self.chance.pick(self.lexicon.saying)
        content = self._clause(speakers=0.2)
        return Clause(subject, Predicate(*self._aspect(), verb=verb, content=content))

    def _person(self) -> Speaker | NounPhrase:
        if self.chance.happens(0.3):
            return self._speaker()
        return self.noun_phrase(frozenset({PERSON}))

    def _speaker(self) -> Speaker:
        return Speaker(1 + self.chance.index(2), self.chance.happens(0.4))

    def _clause(self, speakers: float) -> Clause:
        """Draw a clause, whose subject is a speaker with the given probability."""
        if self.chance.happens(speakers):
            return Clause(self._speaker(), self._action())
        if self.chance.happens(0.15):
            return self._quality()
        if self.chance.happens(0.2):
            verb = self.chance.pick(self.lexicon.happening)
            return Clause(self.noun_phrase(INANIMATE), self._rest(verb))
        subject = self.noun_phrase(ANIMATE)
        if self.chance.happens(0.12):
            second = self.noun_phrase(ANIMATE)
            if second.noun != subject.noun:
                subject = Pair(subject, second)
        elif self.chance.happens(0.2):
            subject = replace(subject, relative=self._action(short=True))
        return Clause(subject, self._action())

    def _quality(self) -> Clause:
        """Draw "something is <adjective>", where the adjective may decide the subject's sense."""
        quality = self.chance.pick(self.lexicon.adjectives)
        subject = self.noun_phrase(quality.kinds)
        return Clause(subject, Predicate(*self._aspect(), quality=quality))

    def _action(self, short: bool = False) -> Predicate:
        """Draw what a person or animal does; ``short`` for relative clauses."""
        if self.chance.happens(0.25):
            return self._rest(self.chance.pick(self.lexicon.moving), short)
        verb = self.chance.pick_early(self.lexicon.transitive[self.chance.pick(KINDS)])
        # The stem's other meaning, if it has one, must not fit this object.
        allowed = {meaning.object for meaning in self.lexicon.verb_meanings(verb.lumi)}
        predicate = self._rest(verb, short)
        return replace(predicate, object=self.noun_phrase(frozenset({verb.object}), allowed))

    def _reason(self, main: Clause) -> Clause:
        """Draw a because-clause about the main clause's subject, and perhaps its object."""
        subject = Anaphor(main.subject)
        kinds = _kinds(main.subject)
        target = main.predicate.object
        if kinds <= ANIMATE and target is not None and self.chance.happens(0.5):
            verb = self.chance.pick_early(self.lexicon.transitive[target.noun.kind])
            return Clause(subject, replace(self._rest(verb, short=True), object=Anaphor(target)))
        if kinds <= ANIMATE and self.chance.happens(0.6):
            return Clause(subject, self._action(short=True))
        fitting = [word for word in self.lexicon.adjectives if kinds <= word.kinds]
        quality = self.chance.pick(fitting)
        return Clause(subject, Predicate(*self._aspect(), quality=quality))

    def _rest(self, verb: Verb, short: bool = False) -> Predicate:
        """Draw tense, negation, place and adverb of a verb."""
        predicate = Predicate(*self._aspect(), verb=verb)
        if not short and self.chance.happens(0.3):
            place = self.noun_phrase(frozenset({PLACE}))
            relation = self.chance.pick(self.lexicon.relations)
            predicate = replace(predicate, location=Location(relation, place))
        if not short and self.chance.happens(0.3):
            predicate = replace(predicate, adverb=self.chance.pick(self.lexicon.adverbs))
        return predicate

    def _aspect(self) -> tuple[str, bool]:
        return self.chance.pick(TENSES), self.chance.happens(0.12)

    def noun_phrase(
        self, kinds: frozenset[str], readings: set[str] | frozenset[str] | None = None
    ) -> NounPhrase:
        """Draw a noun phrase.

        Args:
            kinds: The kinds that may be drawn.
            readings: The kinds that the place in the sentence would allow a reader to think
                of, if more than ``kinds``.
        """
        noun = self.chance.pick_early(self.lexicon.nouns[self.chance.pick(sorted(kinds))])
        fitting = [word for word in self.lexicon.adjectives if noun.kind in word.kinds]
        adjective = self.chance.pick(fitting) if self.chance.happens(0.3) else None
        readings = frozenset(readings or kinds)
        if not self.is_clear(noun, adjective, readings):
            decisive = [word for word in fitting if self.is_clear(noun, word, readings)]
            adjective = self.chance.pick(decisive)
        return NounPhrase(noun, self.chance.happens(0.35), self.chance.happens(0.6), adjective)

    def is_clear(self, noun: Noun, adjective: Adjective | None, readings: frozenset[str]) -> bool:
        """Tell whether a noun has one meaning among the kinds that can be thought of."""
        if adjective is not None:
            readings &= adjective.kinds
        meanings = self.lexicon.meanings(noun.lumi)
        return sum(meaning.kind in readings for meaning in meanings) == 1


def _kinds(subject: NounPhrase | Pair) -> frozenset[str]:
    phrases = (subject.first, subject.second) if isinstance(subject, Pair) else (subject,)
    return frozenset(phrase.noun.kind for phrase in phrases)
