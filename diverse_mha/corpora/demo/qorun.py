"""Qorun, the target language: three genders, three cases, and a verb that moves.

Nouns are masculine, feminine or neuter, and end in the case (nominative, accusative, oblique)
and number of their gender's pattern. The article before and the adjective after the noun agree
with it; there is no indefinite article in the plural. A place stands in the oblique, followed
by its postposition.

Verbs show tense by a prefix and person by an ending; in the past, third person singular, they
show the gender of the subject instead. Negation is an ending too. The verb is second in a
statement (an adverb comes first, and the subject then follows the verb), first in a question,
last in a subordinate clause. Pronouns of the first and second person are left out as subjects.
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

# The case is an index into the rows below.
NOMINATIVE, ACCUSATIVE, OBLIQUE = range(3)
NOUN = {
    ("m", False): ("", "en", "um"),
    ("f", False): ("a", "an", "as"),
    ("n", False): ("e", "e", "et"),
    ("m", True): ("ar", "aren", "arum"),
    ("f", True): ("ir", "iren", "irim"),
    ("n", True): ("u", "u", "utum"),
}
# One row per gender; the plural is the same for all three.
ARTICLE = {
    "m": ("hor", "hon", "hom"),
    "f": ("hia", "hin", "him"),
    "n": ("hu", "hu", "hum"),
    "plural": ("hes", "hens", "hems"),
}
ONE = {"m": ("ek", "eken", "ekum"), "f": ("eka", "ekan", "ekas"), "n": ("eke", "eke", "eket")}
ADJECTIVE = {
    "m": ("or", "on", "om"),
    "f": ("ia", "in", "im"),
    "n": ("u", "u", "um"),
    "plural": ("es", "ens", "ems"),
}
PRONOUN = {
    "m": ("sor", "son", "som"),
    "f": ("sia", "sin", "sim"),
    "n": ("su", "su", "sum"),
    "plural": ("ses", "sens", "sems"),
}
RELATIVE = {"m": "qor", "f": "qia", "n": "qu", "plural": "qes"}
TENSE = {"present": "", "past": "ge", "future": "vü"}
PERSON = {
    (1, False): "im",
    (2, False): "ish",
    (3, False): "it",
    (1, True): "ame",
    (2, True): "ate",
    (3, True): "ent",
}
PAST = {"m": "or", "f": "ia", "n": "u"}
BE, NOT, AND, THAT, BECAUSE = "wes", "nek", "ta", "dash", "vol"


def sentence(meaning: Sentence) -> str:
    """Put a sentence into Qorun."""
    subject, predicate = meaning.main.subject, meaning.main.predicate
    verb, first, last = verb_form(predicate, subject), nominal(subject), rest(predicate, subject)
    adverb = adverbial(predicate)
    if meaning.question:
        words = [verb, *first, *adverb, *last]
    elif adverb:
        words = [*adverb, verb, *first, *last]
    else:
        words = [*first, verb, *last]
    if predicate.content is not None:
        words += [",", THAT, *subordinate(predicate.content)]
    if meaning.reason is not None:
        words += [",", BECAUSE, *subordinate(meaning.reason)]
    return punctuate(words, "?" if meaning.question else ".")


def subordinate(meaning: Clause) -> list[str]:
    """Put a subordinate clause into words, the verb last."""
    subject, predicate = meaning.subject, meaning.predicate
    middle = [*rest(predicate, subject), *adverbial(predicate)]
    return [*nominal(subject), *middle, verb_form(predicate, subject)]


def verb_form(meaning: Predicate, subject: Speaker | NounPhrase | Pair | Anaphor) -> str:
    """Return the verb with its prefix and endings."""
    stem = BE if meaning.verb is None else meaning.verb.qorun
    ending = PERSON[subject.person, subject.plural]
    if meaning.tense == "past" and subject.person == 3 and not subject.plural:
        ending = PAST[subject.gender]
    return TENSE[meaning.tense] + stem + ending + (NOT if meaning.negated else "")


def rest(meaning: Predicate, subject: Speaker | NounPhrase | Pair | Anaphor) -> list[str]:
    """Put the quality or object, and the place, into words."""
    words = []
    if meaning.quality is not None:
        words.append(meaning.quality.qorun + ADJECTIVE[class_of(subject)][0])
    if meaning.object is not None:
        words += nominal(meaning.object, ACCUSATIVE)
    if meaning.location is not None:
        words += nominal(meaning.location.place, OBLIQUE)
        words.append(meaning.location.relation.qorun + "ö")
    return words


def adverbial(meaning: Predicate) -> list[str]:
    """Return the adverb, if there is one."""
    return [] if meaning.adverb is None else [meaning.adverb.qorun + "li"]


def nominal(meaning: Speaker | NounPhrase | Pair | Anaphor, case: int = NOMINATIVE) -> list[str]:
    """Put a subject, object or place into words, in its case."""
    if isinstance(meaning, Speaker):
        return []
    if isinstance(meaning, Anaphor):
        return [PRONOUN[class_of(meaning)][case]]
    if isinstance(meaning, Pair):
        return [*nominal(meaning.first, case), AND, *nominal(meaning.second, case)]
    words = []
    if meaning.definite:
        words.append(ARTICLE[class_of(meaning)][case])
    elif not meaning.plural:
        words.append(ONE[meaning.gender][case])
    words.append(meaning.noun.qorun + NOUN[meaning.gender, meaning.plural][case])
    if meaning.adjective is not None:
        words.append(meaning.adjective.qorun + ADJECTIVE[class_of(meaning)][case])
    if meaning.relative is not None:
        clause = [*rest(meaning.relative, meaning), verb_form(meaning.relative, meaning)]
        words += [",", RELATIVE[class_of(meaning)], *clause, ","]
    return words


def class_of(meaning: NounPhrase | Pair | Anaphor) -> str:
    """Return the agreement class: the gender, or "plural", which has no genders."""
    return "plural" if meaning.plural else meaning.gender


def punctuate(words: list[str], mark: str) -> str:
    """Join words, commas without a space before them; a comma gives way to what follows it."""
    return " ".join(words).replace(" ,", ",").replace(",,", ",").rstrip(",") + mark
