"""The rules of the two languages, checked on finished sentences by reading them back."""

from collections import defaultdict

import pytest

from diverse_mha.corpora.demo import lumi, qorun
from diverse_mha.corpora.demo.chance import Chance
from diverse_mha.corpora.demo.lexicon import lexicon
from diverse_mha.corpora.demo.meaning import (
    Anaphor,
    Clause,
    Location,
    NounPhrase,
    Pair,
    Predicate,
    Sentence,
    Speaker,
)
from diverse_mha.corpora.demo.sampling import Sampler

WORDS = lexicon()
NOUNS = [noun for nouns in WORDS.nouns.values() for noun in nouns]
VERBS = [
    verb
    for verbs in (*WORDS.transitive.values(), WORDS.moving, WORDS.happening, WORDS.saying)
    for verb in verbs
]


def readings(table, stem=""):
    """Map each form of a table of endings to the (class, case) it can be."""
    forms = defaultdict(set)
    for key, endings in table.items():
        for case, ending in enumerate(endings):
            forms[stem + ending].add((key, case))
    return forms


def agreement_class(key):
    """Turn a noun's (gender, plural) into the class that its article and adjective show."""
    gender, plural = key
    return "plural" if plural else gender


ARTICLES = readings(qorun.ARTICLE)
for form, found in readings(qorun.ONE).items():
    ARTICLES[form] |= found
NOUN_FORMS = defaultdict(set)
for noun in NOUNS:
    table = {key: ends for key, ends in qorun.NOUN.items() if key[0] == noun.gender}
    for form, found in readings(table, noun.qorun).items():
        NOUN_FORMS[form] |= {(agreement_class(key), case) for key, case in found}
ADJECTIVES = defaultdict(set)
for adjective in WORDS.adjectives:
    for form, found in readings(qorun.ADJECTIVE, adjective.qorun).items():
        ADJECTIVES[form] |= found
VERB_FORMS = {
    prefix + stem + ending + negation: (tense, ending)
    for tense, prefix in qorun.TENSE.items()
    for stem in (qorun.BE, *(verb.qorun for verb in VERBS))
    for ending in (*qorun.PERSON.values(), *qorun.PAST.values())
    for negation in ("", qorun.NOT)
}


def phrases(target):
    """Yield the readings shared by article, noun and adjective of each phrase, and what follows."""
    words = target.replace(",", " ,").rstrip(".?").split()
    for i, word in enumerate(words[:-1]):
        if word in ARTICLES and words[i + 1] in NOUN_FORMS:
            shared, end = ARTICLES[word] & NOUN_FORMS[words[i + 1]], i + 2
            # After "A and B" an adjective may be said of both, and then it is plural.
            if end < len(words) and words[end] in ADJECTIVES and words[i - 1] != qorun.AND:
                shared, end = shared & ADJECTIVES[words[end]], end + 1
            yield i, shared, words[end:]


def test_article_noun_and_adjective_agree(pairs):
    count = 0
    for _, target in pairs:
        for _, shared, _ in phrases(target):
            count += 1
            assert shared, target
    assert count > 2000


def test_verb_agrees_with_the_subject_before_it(pairs):
    """A sentence that opens with a noun phrase has its verb next, unless "and" or a comma is."""
    count = 0
    for _, target in pairs:
        first = next(phrases(target), None)
        if first is None or first[0] != 0 or not first[2] or first[2][0] not in VERB_FORMS:
            continue
        classes = {key for key, case in first[1] if case == qorun.NOMINATIVE}
        tense, ending = VERB_FORMS[first[2][0]]
        expected = {"ent" if c == "plural" else qorun.PAST[c] if tense == "past" else "it"
                    for c in classes}  # fmt: skip
        assert ending in expected, target
        count += 1
    assert count > 300


def test_lumi_agrees_in_number(pairs):
    """Article, adjective and noun; and the verb, where it follows the subject at once."""
    count = 0
    for source, _ in pairs:
        words = source.rstrip(".?").split()
        if words[0] not in ("la", "un", "uni"):
            continue
        end = 2 if words[1].endswith(("o", "oi")) else 3
        plural = words[end - 1].endswith("i")
        assert all(word.endswith("i") == plural for word in words[1:end])
        assert words[0] == "la" or words[0].endswith("i") == plural
        verb = words[end + 1] if words[end] == "ne" else words[end]
        if verb not in ("e", "ki"):
            assert verb.endswith("n" if plural else "s"), source
            count += 1
    assert count > 300


def test_verb_stands_second_first_or_last(pairs):
    """Questions open with the verb; a because-clause or that-clause closes with it."""
    questions = clauses = 0
    for _, target in pairs:
        words = target.rstrip(".?").split()
        if target.endswith("?"):
            assert words[0] in VERB_FORMS, target
            questions += 1
        elif qorun.BECAUSE in words or qorun.THAT in words:
            assert words[-1] in VERB_FORMS, target
            clauses += 1
    assert questions > 100 and clauses > 300


def test_one_source_sentence_never_has_two_translations():
    sampler, known = Sampler(WORDS, Chance(11)), {}
    for _ in range(6000):
        meaning = sampler.sentence()
        source, target = lumi.sentence(meaning), qorun.sentence(meaning)
        assert known.setdefault(source, target) == target


def homonyms(words):
    stems = defaultdict(set)
    for word in words:
        stems[word.lumi].add(word)
    return {stem: found for stem, found in stems.items() if len(found) > 1}


def test_lexicon_has_the_promised_homonyms_and_no_other():
    nouns = homonyms(NOUNS)
    assert len(nouns) == 14 and all(len({n.kind for n in found}) == 2 for found in nouns.values())
    verbs = homonyms(VERBS)
    assert len(verbs) == 6 and all(len({v.object for v in found}) == 2 for found in verbs.values())
    assert not homonyms(WORDS.adjectives + WORDS.adverbs + WORDS.relations)
    qoruns = [word.qorun for word in (*NOUNS, *VERBS, *WORDS.adjectives)]
    assert len(set(qoruns)) == len(qoruns)


def test_every_noun_homonym_is_used_in_both_meanings(pairs):
    used = defaultdict(set)
    for source, target in pairs:
        forms = {word.strip(".,?") for word in target.split()}
        for stem, meanings in homonyms(NOUNS).items():
            if {stem + "o", stem + "oi"} & set(source.strip(".?").split()):
                for noun in meanings:
                    if any(form.startswith(noun.qorun) and form in NOUN_FORMS for form in forms):
                        used[stem].add(noun)
    assert all(used[stem] == meanings for stem, meanings in homonyms(NOUNS).items())


def phrase(noun, *, plural=False, definite=True, adjective=None, relative=None):
    return NounPhrase(noun, plural, definite, adjective, relative)


def some_noun(gender):
    return next(noun for noun in WORDS.nouns["person"] if noun.gender == gender)


@pytest.mark.parametrize("gender, pronoun", [("m", "sor"), ("f", "sia"), ("n", "su")])
def test_pronoun_takes_its_gender_from_the_subject_of_the_main_clause(gender, pronoun):
    subject, run = phrase(some_noun(gender)), Predicate("present", False, verb=WORDS.moving[0])
    meaning = Sentence(Clause(subject, run), reason=Clause(Anaphor(subject), run))
    assert " kar ze " in lumi.sentence(meaning)
    assert f", vol {pronoun} " in qorun.sentence(meaning)


@pytest.mark.parametrize(
    "genders, gender", [("ff", "f"), ("fm", "m"), ("mf", "m"), ("nn", "m"), ("fn", "m")]
)
def test_two_nouns_are_feminine_only_together(genders, gender):
    first, second = (phrase(some_noun(g)) for g in genders)
    assert Pair(first, second).gender == gender and Pair(first, second).plural


def test_sentences_written_out_by_hand():
    """Every construction once, from the rules in the modules' docstrings.

    The stems come from the lexicon; the endings and the order are written out.
    """
    man, woman, tool = some_noun("m"), some_noun("f"), WORDS.nouns["tool"][0]
    verb, adverb, near = WORDS.moving[0], WORDS.adverbs[0], WORDS.relations[0]
    use = WORDS.transitive["tool"][0]
    good = WORDS.adjectives[0]

    def both(meaning):
        return lumi.sentence(meaning), qorun.sentence(meaning)

    # First person: the pronoun goes, the ending stays; the adverb comes first.
    run = Predicate("past", True, verb=verb, adverb=adverb)
    assert both(Sentence(Clause(Speaker(1, True), run))) == (
        f"nu ne {verb.lumi}in {adverb.lumi}e.",
        f"{adverb.qorun}li ge{verb.qorun}amenek.",
    )
    # A question; plural without indefinite article; adjective after the noun.
    many = phrase(woman, plural=True, definite=False, adjective=good)
    assert both(Sentence(Clause(many, Predicate("future", False, verb=verb)), question=True)) == (
        f"cu uni {good.lumi}ai {woman.lumi}oi {verb.lumi}on?",
        f"vü{verb.qorun}ent {woman.qorun}ir {good.qorun}es?",
    )
    # A relative clause at the end of a question keeps no comma before the mark.
    relative = Predicate("past", False, verb=verb)
    who = phrase(man, relative=relative)
    ask = Sentence(Clause(who, Predicate("present", False, verb=verb)), question=True)
    assert both(ask) == (
        f"cu la {man.lumi}o ki {verb.lumi}is {verb.lumi}as?",
        f"{verb.qorun}it hor {man.qorun}, qor ge{verb.qorun}or?",
    )
    # Object in the accusative, and a that-clause with place and object before its verb.
    location = Location(near, phrase(WORDS.nouns["place"][0]))
    act = Predicate("past", False, verb=use, object=phrase(tool, definite=False), location=location)
    say = Predicate("present", False, verb=WORDS.saying[0], content=Clause(phrase(woman), act))
    case = qorun.NOUN[tool.gender, False][qorun.ACCUSATIVE]
    place = location.place.noun
    assert both(Sentence(Clause(phrase(man), say))) == (
        f"la {man.lumi}o {WORDS.saying[0].lumi}as ke la {woman.lumi}o {use.lumi}is "
        f"un {tool.lumi}o {near.lumi}u la {place.lumi}o.",
        f"hor {man.qorun} {WORDS.saying[0].qorun}it, dash hia {woman.qorun}a "
        f"{qorun.ONE[tool.gender][1]} {tool.qorun}{case} {qorun.ARTICLE[place.gender][2]} "
        f"{place.qorun}{qorun.NOUN[place.gender, False][2]} {near.qorun}ö ge{use.qorun}ia.",
    )


@pytest.mark.parametrize(
    "source, target",
    [
        ("la fegeno datos un fegalo.", "hu wuyöge vüdirulmit ekan jondan."),
        ("la fegeno nunis bedike.", "qöjushli gewöghüthia hia biqüda."),
        (
            "la fiko sezos la mero kar ze kunis zem.",
            "hia kühitha vübroshulmit hon beqöben, vol sia son gejoqedia.",
        ),
    ],
)
def test_examples_of_the_docstring_are_sentences_of_the_corpus(pairs, source, target):
    assert dict(pairs)[source] == target
