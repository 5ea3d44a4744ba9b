"""Word alignments from attention, and their error rate. Needs torch alone."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

Links = set[tuple[int, int]]  # places of a source and a target word, from 0


def word_places(tokens: Sequence[str], subwords: str | None) -> list[int]:
    """Return the number, from 0, of the word that each token belongs to.

    ``subwords`` is ``subword_nmt`` (``@@`` ends all but the last), ``sentencepiece`` (``▁`` begins
    the first) or None if tokens are words. A last ``▁`` belongs to no word, -1.
    """
    places: list[int] = []
    word, begins = -1, True
    for token in tokens:
        if subwords == "sentencepiece":
            begins = begins or token.startswith("\u2581")
            if not token.strip("\u2581"):  # of the next word
                places.append(word + 1)
                begins = True
                continue
        word += begins
        places.append(word)
        begins = not token.endswith("@@") if subwords == "subword_nmt" else not subwords
    return [place if place <= word else -1 for place in places]


def best_sources(weights: Tensor, sources: Sequence[int], targets: Sequence[int]) -> Tensor:
    """Return the source word that every target word attends to most, (..., target words).

    Weights are summed over the tokens of a source word and averaged over those of a target word.

    Args:
        weights: (..., T, S), attention of the queries that predict the target's tokens.
        sources: word of each of the S source tokens; -1 for a token of no word.
        targets: word of each of the T target tokens.
    """
    to_words = [
        torch.tensor([[float(at == word) for at in places] for word in range(max(places) + 1)])
        for places in (targets, sources)
    ]
    of_targets, of_sources = (matrix.to(weights) for matrix in to_words)
    return (of_targets @ weights @ of_sources.T).argmax(dim=-1)


def alignment_error(
    found: Iterable[Links], sure: Iterable[Links], possible: Iterable[Links]
) -> tuple[float, float, float]:
    """Return alignment error rate, precision and recall over sentences (Och and Ney 2003).

    With links A found, S sure and P possible (S is a subset of P)::

        AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)
        precision = |A & P| / |A|        recall = |A & S| / |S|
    """
    in_sure = in_possible = all_found = all_sure = 0
    for a, s, p in zip(found, sure, possible, strict=True):
        in_sure, in_possible = in_sure + len(a & s), in_possible + len(a & (s | p))
        all_found, all_sure = all_found + len(a), all_sure + len(s)
    error = 1 - (in_sure + in_possible) / max(all_found + all_sure, 1)
    return error, in_possible / max(all_found, 1), in_sure / max(all_sure, 1)


def agreement(choices: Tensor) -> Tensor:
    """Return how often each alignment agrees with the others on average, (K,) in [0, 1].

    The highest has minimum Bayes risk if all are equally likely (Kumar and Byrne 2002).

    Args:
        choices: (K, N), the source word that each alignment chooses for each target word.
    """
    same = torch.stack([(choices == row).double().mean(dim=1) for row in choices])
    return (same.sum(dim=1) - 1) / (len(choices) - 1) if len(choices) > 1 else same[0]
