"""The corpus that comes along: the same every time, disjoint, and true to the rules.

The rules of the two languages are checked on finished sentences, by reading them back.
"""

import hashlib
from collections import defaultdict

import pytest

from diverse_mha.corpora import demo
from diverse_mha.corpora.demo import (
    AGREEING,
    NOMINATIVE,
    NOUN,
    PLURAL,
    PREFIX,
    Chance,
    Part,
    clause,
    lexicon,
    noun_phrase,
    sentence,
    sentence_pairs,
    verb,
    write_corpus,
)

WORDS = lexicon()
VERBS = [word for kind in ("do", "go", "say") for word in WORDS[kind]]


@pytest.fixture(scope="module")
def pairs():
    return sentence_pairs(5500, seed=1)


def test_same_seed_gives_same_bytes_on_every_machine(tmp_path):
    """The digest was taken once. If it moves on purpose, raise demo.VERSION with it."""
    write_corpus(tmp_path, pairs=200, seed=7)
    digest = hashlib.sha256()
    for path in sorted(tmp_path.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    assert digest.hexdigest()[:16] == "449d3f7060a78afd"


def test_other_seed_gives_other_sentences():
    assert not set(sentence_pairs(50, seed=1)) & set(sentence_pairs(50, seed=2))


def test_more_pairs_only_add_pairs():
    assert sentence_pairs(80, seed=3)[:30] == sentence_pairs(30, seed=3)


def test_splits_have_the_promised_sizes_and_share_no_source(tmp_path):
    counts = write_corpus(tmp_path / "new" / "folder", pairs=400, seed=1)
    assert counts == {"train": 400, "valid": 20, "test": 20}
    seen = set()
    for split, count in counts.items():
        source = (tmp_path / f"new/folder/{split}.lm").read_text(encoding="utf-8").splitlines()
        target = (tmp_path / f"new/folder/{split}.qo").read_text(encoding="utf-8").splitlines()
        assert len(source) == len(target) == count
        assert not seen & set(source)
        seen |= set(source)
    assert len(seen) == 440


def test_sentences_have_4_to_20_words(pairs):
    lengths = {len(side.split()) for pair in pairs for side in pair}
    assert min(lengths) == 4 and max(lengths) == 20


def test_nothing_can_be_copied(pairs):
    for source, target in pairs:
        assert not set(source.strip(".?").split()) & set(target.strip(".?").split())


def test_test_split_has_word_forms_unseen_in_training(pairs):
    def forms(part):
        return {word.strip(".,?") for _, target in part for word in target.split()}

    assert len(forms(pairs[5250:]) - forms(pairs[:5000])) >= 10


def test_chance_picks_early_items_more_often():
    chance = Chance(1)
    picks = [chance.pick_early("abcdefgh") for _ in range(2000)]
    assert picks.count("a") > 1.5 * picks.count("h") > 0


def test_every_stem_is_there_once():
    words = [word for kind in WORDS.values() for word in kind]
    assert {kind: len(found) for kind, found in WORDS.items()} == demo.WORDS
    stems = [stem for word in words for stem in (word.lumi, word.qorun)]
    assert len(set(stems)) == len(stems) == 2 * sum(demo.WORDS.values())


def readings(table, stem=""):
    """Map each form of a table of endings to the (class, case) it can be."""
    forms = defaultdict(set)
    for key, endings in table.items():
        for case, ending in enumerate(endings):
            forms[stem + ending].add((key, case))
    return forms


def endings_of(gender):
    """The endings of a gender's nouns, by the class that article and adjective show."""
    return {gender: NOUN[gender, False], PLURAL: NOUN[gender, True]}


ARTICLES = readings(AGREEING, "h")
for gender in "mfn":
    for form, found in readings({gender: NOUN[gender, False]}, "ek").items():
        ARTICLES[form] |= found
NOUN_FORMS, ADJECTIVES = defaultdict(set), defaultdict(set)
for noun in WORDS["noun"]:
    for form, found in readings(endings_of(noun.gender), noun.qorun).items():
        NOUN_FORMS[form] |= found
for adjective in WORDS["adjective"]:
    for form, found in readings(AGREEING, adjective.qorun).items():
        ADJECTIVES[form] |= found
PAST = {gender: AGREEING[gender][NOMINATIVE] for gender in "mfn"}
VERB_FORMS = {
    prefix + word.qorun + ending + negation: (tense, ending)
    for tense, prefix in PREFIX.items()
    for word in VERBS
    for ending in ("it", "ent", *PAST.values())
    for negation in ("", "nek")
}


def phrases(target):
    """Yield the readings shared by article, noun and adjective of each phrase, and what follows."""
    words = target.replace(",", " ,").rstrip(".?").split()
    for i, word in enumerate(words[:-1]):
        if word in ARTICLES and words[i + 1] in NOUN_FORMS:
            shared, end = ARTICLES[word] & NOUN_FORMS[words[i + 1]], i + 2
            if end < len(words) and words[end] in ADJECTIVES:
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
    """A sentence that opens with a noun phrase has its verb next."""
    count = 0
    for _, target in pairs:
        first = next(phrases(target), None)
        if first is None or first[0] != 0:
            continue
        classes = {key for key, case in first[1] if case == NOMINATIVE}
        tense, ending = VERB_FORMS[first[2][0]]
        expected = {"ent" if c == PLURAL else PAST[c] if tense == "i" else "it" for c in classes}
        assert ending in expected, target
        count += 1
    assert count > 300


def test_lumi_agrees_in_number(pairs):
    """Article, adjective and noun; and the verb, which follows the subject."""
    count = 0
    for source, _ in pairs:
        words = source.removeprefix("cu ").rstrip(".?").split()
        end = 2 if words[1].endswith(("o", "oi")) else 3
        plural = words[end - 1].endswith("i")
        assert all(word.endswith("i") == plural for word in words[1:end])
        assert words[0] == "la" or words[0] == ("uni" if plural else "un")
        action = words[end + 1] if words[end] == "ne" else words[end]
        assert action.endswith("n" if plural else "s"), source
        count += 1
    assert count == len(pairs)


def test_verb_stands_second_first_or_last(pairs):
    """Questions open with the verb; a because-clause or that-clause closes with it."""
    questions = clauses = 0
    for _, target in pairs:
        words = target.rstrip(".?").split()
        if target.endswith("?"):
            assert words[0] in VERB_FORMS, target
            questions += 1
        elif {"vol", "dash"} & set(words):
            assert words[-1] in VERB_FORMS, target
            clauses += 1
    assert questions > 100 and clauses > 300


def test_one_source_sentence_never_has_two_translations():
    chance, known = Chance(11), {}
    for _ in range(6000):
        source, target = sentence(chance)
        assert known.setdefault(source, target) == target


class Script:
    """Chance that says what it is told to, in this order."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def happens(self, _):
        return self.answers.pop(0)

    def pick(self, items):
        return items[self.answers.pop(0)]

    pick_early = pick


def some_noun(gender):
    return next(place for place, noun in enumerate(WORDS["noun"]) if noun.gender == gender)


REPORT = True  # the first answer of a sentence


def short(noun, tense=0):
    """Answers for a phrase "the noun" and a verb without object, place and adverb."""
    return (noun, False, True, False), (False, 0, tense, False, False, False)


@pytest.mark.parametrize("gender, pronoun", [("m", "sor"), ("f", "sia"), ("n", "su")])
def test_pronoun_takes_its_gender_from_the_subject_of_the_main_clause(gender, pronoun):
    phrase, action = short(some_noun(gender))
    source, target = sentence(Script(not REPORT, False, *phrase, *action, True, *action))
    assert " kar ze " in source and f", vol {pronoun} " in target


def test_pronoun_of_several_has_no_gender():
    phrase, action = (some_noun("f"), True, True, False), short(0)[1]
    source, target = sentence(Script(not REPORT, False, *phrase, *action, True, *action))
    assert " kar zen " in source and ", vol ses " in target


def test_sentences_written_out_by_hand():
    """Every construction once, from the rules in the module's docstring.

    The stems come from the lexicon; the endings and the order are written out.
    """
    m, f = some_noun("m"), some_noun("f")
    man, woman = WORDS["noun"][m], WORDS["noun"][f]
    kinds = ("relation", "adverb", "go", "do", "say", "adjective")
    near, adverb, go, use, say, good = (WORDS[kind][0] for kind in kinds)

    # Past and denied; the adverb comes first, the verb before its subject.
    answers = Script(f, False, True, False, False, 0, 1, True, False, True, 0)
    assert clause(answers, "statement")[0][:2] == (
        f"la {woman.lumi}o ne {go.lumi}is {adverb.lumi}e".split(),
        f"{adverb.qorun}li ge{go.qorun}ianek hia {woman.qorun}a".split(),
    )
    # A question; plural without "a"; adjective after the noun.
    answers = Script(not REPORT, True, f, True, False, True, 0, False, 0, 2, False, False, False)
    assert sentence(answers) == (
        f"cu uni {good.lumi}ai {woman.lumi}oi {go.lumi}on?",
        f"vü{go.qorun}ent {woman.qorun}ir {good.qorun}es?",
    )
    # Object in the accusative, and a that-clause with place and object before its verb.
    speaker, content = (m, False, True, False, 0, 0, False), (f, False, True, False)
    action, place = (True, 0, 1, False, m, False, False, False), (True, 0, f, False, True, False)
    assert sentence(Script(REPORT, *speaker, *content, *action, *place, False)) == (
        f"la {man.lumi}o {say.lumi}as ke la {woman.lumi}o {use.lumi}is "
        f"un {man.lumi}o {near.lumi}u la {woman.lumi}o.",
        f"hor {man.qorun} {say.qorun}it, dash hia {woman.qorun}a "
        f"eken {man.qorun}en him {woman.qorun}as {near.qorun}ö ge{use.qorun}ia.",
    )


@pytest.mark.parametrize("case", [demo.NOMINATIVE, demo.ACCUSATIVE])
def test_neuter_is_alike_as_subject_and_object(case):
    noun = some_noun("n")
    phrase = noun_phrase(Script(noun, False, False, True, 0), case)
    word, good = WORDS["noun"][noun], WORDS["adjective"][0]
    lumi = ["un", good.lumi + "a", word.lumi + "o"]
    assert phrase == Part(lumi, ["eke", word.qorun + "e", good.qorun + "u"], "n")


@pytest.mark.parametrize("tense, prefix, ending", [(0, "", "it"), (1, "ge", "u"), (2, "vü", "it")])
def test_only_the_past_shows_gender(tense, prefix, ending):
    stem = WORDS["go"][0].qorun
    assert verb(Script(0, tense, False), "go", "n").qorun == [prefix + stem + ending]
    assert verb(Script(0, tense, False), "go", PLURAL).qorun == [prefix + stem + "ent"]


@pytest.mark.parametrize(
    "source, target",
    [
        (
            "la sozo muros la limulo kar ze pigivis.",
            "hia brükhuda vükokhit hu juköthe, vol sia gejokhadia.",
        ),
        ("un sozo dobanis mave.", "thobli gekhobia eka brükhuda."),
    ],
)
def test_examples_of_the_docstring_are_sentences_of_the_corpus(pairs, source, target):
    assert dict(pairs)[source] == target
    text = " ".join(demo.__doc__.replace("-", "").split())
    assert source in text and target in text
