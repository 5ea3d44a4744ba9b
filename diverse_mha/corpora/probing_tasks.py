"""The probing tasks that need no parser, made of any tokenised sentences.

After Conneau et al. 2018, section 3; what differs is said at each task.
"""

import random
from collections import Counter
from collections.abc import Sequence

Labelled = list[tuple[str, list[str]]]  # label and tokens

# Their six bins of equal width over 5 to 28 tokens: last length of each.
LENGTH_BINS = (8, 12, 16, 20, 24, 28)
SHORTEST = 5
INTACT, INVERTED = "O", "I"


def sentence_length(sentences: Sequence[list[str]]) -> Labelled:
    """Label each sentence of 5 to 28 tokens with the number of its bin, 0 to 5.

    The published task has as many sentences in every bin; here they are as the corpus has
    them, and the share of the most frequent bin is part of the evaluation.
    """
    return [
        (str(sum(len(words) > last for last in LENGTH_BINS)), words)
        for words in sentences
        if SHORTEST <= len(words) <= LENGTH_BINS[-1]
    ]


def word_content(
    sentences: Sequence[list[str]], *, words: int = 1000, rank: int = 2000
) -> Labelled:
    """Label each sentence that has exactly one of certain words, once, with that word.

    Args:
        sentences: tokenised sentences.
        words: how many words; the published task has 1,000.
        rank: how many more frequent words there are before them; the published task has 2,000
            of a far larger corpus. Only words of letters count.

    Raises:
        ValueError: if the corpus has too few words.
    """
    counts = Counter(word for sentence in sentences for word in sentence if word.isalpha())
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    if len(ranked) < rank + words:
        raise ValueError(f"{len(ranked):,} different words, and {rank + words:,} are needed")
    chosen = set(ranked[rank : rank + words])
    labelled = []
    for sentence in sentences:
        found = [word for word in sentence if word in chosen]
        if len(found) == 1:
            labelled.append((found[0], sentence))
    return labelled


def bigram_shift(sentences: Sequence[list[str]], generator: random.Random) -> Labelled:
    """Exchange two neighbouring words in half of the sentences, and label which: I or O.

    The two are words (they hold a letter) and differ; a sentence without such a pair is left
    out, so that the label cannot be guessed from that.
    """
    labelled = []
    for sentence in sentences:
        places = [
            i
            for i, (left, right) in enumerate(zip(sentence, sentence[1:], strict=False))
            if left != right and _is_word(left) and _is_word(right)
        ]
        if not places:
            continue
        if generator.random() < 0.5:
            labelled.append((INTACT, sentence))
            continue
        i = generator.choice(places)
        shifted = [*sentence[:i], sentence[i + 1], sentence[i], *sentence[i + 2 :]]
        labelled.append((INVERTED, shifted))
    return labelled


def _is_word(token: str) -> bool:
    return any(character.isalpha() for character in token)
