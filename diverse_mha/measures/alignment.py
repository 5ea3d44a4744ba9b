"""Word alignments from attention, and their error rate. Needs only torch."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

Links = set[tuple[int, int]]  # positions of a source word and a target word, from 0
SYMMETRISATIONS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")
# Neighbours of a link as (target offset, source offset), in the order of Koehn et al.
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def word_places(tokens: Sequence[str], subwords: str | None) -> list[int]:
    """Return the number, from 0, of the word that each token belongs to.

    ``subwords`` is ``subword_nmt`` (all subwords of a word but the last end with ``@@``),
    ``sentencepiece`` (the first subword of a word starts with ``▁``) or None (tokens are words).
    A lone ``▁`` at the end belongs to no word and has the number -1.
    """
    places: list[int] = []
    word, begins = -1, True
    for token in tokens:
        if subwords == "sentencepiece":
            begins = begins or token.startswith("\u2581")
            if not token.strip("\u2581"):  # a lone ▁ belongs to the next word
                places.append(word + 1)
                begins = True
                continue
        word += begins
        places.append(word)
        begins = not token.endswith("@@") if subwords == "subword_nmt" else not subwords
    return [place if place <= word else -1 for place in places]


def merge_subwords(tokens: Sequence[str], places: Sequence[int], subwords: str | None) -> list[str]:
    """Return the words that tokens form; ``places`` is the result of :func:`word_places`."""
    words = [""] * (max(places, default=-1) + 1)
    for token, place in zip(tokens, places, strict=True):
        if subwords == "subword_nmt":
            token = token.removesuffix("@@")
        if place >= 0:
            words[place] += token.strip("\u2581") if subwords == "sentencepiece" else token
    return words


def best_sources(weights: Tensor, sources: Sequence[int], targets: Sequence[int]) -> Tensor:
    """Return the source word that every target word attends to most, (..., target words).

    Choose it to read a word alignment from the encoder-decoder attention of a head.

    Weights are summed over the tokens of a source word and averaged over the tokens of a target
    word.

    Args:
        weights: (..., T, S), attention of the queries that predict the target's tokens.
        sources: number of the word that each of the S source tokens belongs to; -1: no word.
        targets: number of the word that each of the T target tokens belongs to.

    Example:
        >>> import torch
        >>> weights = torch.tensor([[0.9, 0.1, 0.0], [0.1, 0.5, 0.4]])
        >>> best_sources(weights, sources=[0, 1, 1], targets=[0, 1]).tolist()
        [0, 1]
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

    Choose it if you have a gold alignment; without one, use :func:`consistency` and
    :func:`agreement`.

    A rate of no links is NaN, such as the recall if all links are possible ones.

    With A the links found, S the sure and P the possible links (S is a subset of P)::

        AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)
        precision = |A & P| / |A|        recall = |A & S| / |S|

    Example:
        >>> error, _, _ = alignment_error([{(0, 0), (1, 1)}], [{(0, 0)}], [{(1, 1)}])
        >>> error
        0.0
    """
    in_sure = in_possible = all_found = all_sure = 0
    for a, s, p in zip(found, sure, possible, strict=True):
        in_sure, in_possible = in_sure + len(a & s), in_possible + len(a & (s | p))
        all_found, all_sure = all_found + len(a), all_sure + len(s)
    error = 1 - _ratio(in_sure + in_possible, all_found + all_sure)
    return error, _ratio(in_possible, all_found), _ratio(in_sure, all_sure)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def consistency(sources: Tensor, targets: Tensor) -> float:
    """Return how often another link of a source word leads to the same target word, in [0, 1].

    Choose it to find the head that aligns words without a gold alignment.

    The result is the mean of p(t|s) over all links of a source word s to a target word t. The link
    itself is not counted::

        (count(s, t) - 1) / count(s)

    A head that always links to the same position, such as the last, scores hardly above chance.

    Args:
        sources: (N,), for each link, the number of the source word's type.
        targets: (N,), for each link, the number of the target word's type, from 0.

    Example:
        >>> import torch
        >>> dog, cat = 0, 1  # both links of "dog" lead to one word, those of "cat" to two
        >>> consistency(torch.tensor([dog, dog, cat, cat]), torch.tensor([5, 5, 6, 7]))
        0.25
    """
    if not len(targets):
        return 0.0
    pairs = _count(sources * (int(targets.max()) + 1) + targets)
    return float(((pairs - 1) / _count(sources)).mean())


def _count(values: Tensor) -> Tensor:
    """Return, for each element of ``values``, how often its value occurs."""
    _, places, counts = values.unique(return_inverse=True, return_counts=True)
    return counts[places].double()


def agreement(choices: Tensor) -> Tensor:
    """Return how often each alignment agrees with the others on average, (K,) in [0, 1].

    Choose it to pick one of several alignments without a gold alignment.

    The alignment with the highest agreement has minimum Bayes risk if all alignments are equally
    likely (Kumar and Byrne 2002).

    Args:
        choices: (K, N), the source word that each alignment chooses for each target word.

    Example:
        >>> import torch
        >>> choices = torch.tensor([[0, 1], [0, 1], [1, 1]])
        >>> agreement(choices).tolist()  # the third alignment agrees least
        [0.75, 0.75, 0.5]
    """
    same = torch.stack([(choices == row).double().mean(dim=1) for row in choices])
    return (same.sum(dim=1) - 1) / (len(choices) - 1) if len(choices) > 1 else same[0]


def symmetrise(forward: Links, backward: Links, method: str) -> Links:
    """Join the alignments of both directions by one of ``SYMMETRISATIONS`` (Koehn et al. 2003).

    Choose it if you have models of both directions: ``intersection`` for few sure links, and
    ``grow-diag-final-and`` for many.

    ``grow-diag`` starts with the intersection. It adds links of the union that are next to a chosen
    link, if their source word or their target word has no link yet. ``final`` then adds the other
    links of ``forward``, and those of ``backward``, if one of their words has no link yet.
    ``final-and`` adds such a link only if both of its words have no link yet.

    Args:
        forward: links with a source word for each target word, from the forward model.
        backward: links with a target word for each source word, from the reverse model.
        method: one of ``SYMMETRISATIONS``.

    Example:
        >>> sorted(symmetrise({(0, 0), (1, 1)}, {(0, 0)}, "intersection"))
        [(0, 0)]
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
    """Return whether ``links`` lack a link of ``link``'s source word, and of its target word."""
    lacks = (all(link[side] != other[side] for other in links) for side in (0, 1))
    return next(lacks), next(lacks)


def _grow(links: Links, union: Links) -> None:
    """Add the neighbours of ``links`` that are in ``union``, in place, until there are no more."""
    places = sorted(union, key=_by_target)
    size = -1
    while size < len(links):
        size = len(links)
        for source, target in (place for place in places if place in links):
            for by_target, by_source in _NEIGHBOURS:
                link = source + by_source, target + by_target
                if link in union and link not in links and any(_unaligned(link, links)):
                    links.add(link)
