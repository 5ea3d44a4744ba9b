"""Word alignments from attention, and their error rate. Needs torch alone."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

Links = set[tuple[int, int]]  # places of a source and a target word, from 0
SYMMETRISATIONS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")
# Steps by target and by source word, in the order of Koehn et al.
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


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


def merge_subwords(tokens: Sequence[str], places: Sequence[int], subwords: str | None) -> list[str]:
    """Return the words of tokens; ``places`` are those of :func:`word_places`."""
    words = [""] * (max(places, default=-1) + 1)
    for token, place in zip(tokens, places, strict=True):
        if subwords == "subword_nmt":
            token = token.removesuffix("@@")
        if place >= 0:
            words[place] += token.strip("\u2581") if subwords == "sentencepiece" else token
    return words


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


def consistency(sources: Tensor, targets: Tensor) -> float:
    """Return how often another link of a source word leads to the same target word, in [0, 1].

    The mean, over links of a source word s and a target word t, of p(t|s) without the link itself::

        (count(s, t) - 1) / count(s)

    Links to one place in every sentence, such as its end, have hardly more than chance.

    Args:
        sources: (N,), the number of the source word's type, by link.
        targets: (N,), the number of the target word's type, from 0.
    """
    if not len(targets):
        return 0.0
    pairs = _count(sources * (int(targets.max()) + 1) + targets)
    return float(((pairs - 1) / _count(sources)).mean())


def _count(values: Tensor) -> Tensor:
    """Return how often each value occurs, in the place of each."""
    _, places, counts = values.unique(return_inverse=True, return_counts=True)
    return counts[places].double()


def agreement(choices: Tensor) -> Tensor:
    """Return how often each alignment agrees with the others on average, (K,) in [0, 1].

    The highest has minimum Bayes risk if all are equally likely (Kumar and Byrne 2002).

    Args:
        choices: (K, N), the source word that each alignment chooses for each target word.
    """
    same = torch.stack([(choices == row).double().mean(dim=1) for row in choices])
    return (same.sum(dim=1) - 1) / (len(choices) - 1) if len(choices) > 1 else same[0]


def symmetrise(forward: Links, backward: Links, method: str) -> Links:
    """Join the alignments of both directions by one of ``SYMMETRISATIONS`` (Koehn et al. 2003).

    ``grow-diag`` begins with the intersection and adds neighbouring links of the union whose source
    or target word has no link yet. ``final`` then adds such links of ``forward``, then of
    ``backward``, neighbours or not; ``final-and`` only those whose words have both no link.

    Args:
        forward: a source word for each target word, from the model of this direction.
        backward: a target word for each source word, from the model of the other direction.
        method: the name.
    """
    union = forward | backward
    if method == "union":
        return union
    links = forward & backward
    if method == "intersection":
        return links
    _grow(links, union)
    if method != "grow-diag":
        join = all if method == "grow-diag-final-and" else any
        for found in (forward, backward):
            for link in sorted(found - links, key=_by_target):
                if join(_unaligned(link, links)):
                    links.add(link)
    return links


def _by_target(link: tuple[int, int]) -> tuple[int, int]:
    return link[1], link[0]


def _unaligned(link: tuple[int, int], links: Links) -> tuple[bool, bool]:
    """Say of the source and the target word of a link whether they have none."""
    return tuple(all(link[side] != other[side] for other in links) for side in (0, 1))


def _grow(links: Links, union: Links) -> None:
    """Add to links, sweep by sweep in the order of target words, neighbours in the union."""
    places = sorted(union, key=_by_target)
    size = -1
    while size < len(links):
        size = len(links)
        for source, target in (place for place in places if place in links):
            for by_target, by_source in _NEIGHBOURS:
                link = source + by_source, target + by_target
                if link in union and link not in links and any(_unaligned(link, links)):
                    links.add(link)
