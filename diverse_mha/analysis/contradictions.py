"""Where measures do not agree on which of two models has the more diverse heads."""

from diverse_mha.analysis.tables import compared, headings_of, summary_rows

NOTABLE = 0.01  # all measures named here have a range of 1, or nearly
ALIKE = ("SVCCA", "CKA", "CKA-RBF")  # higher: heads more alike
DIFFER = ("JSD/row", "Sub.", "Pos.", "Out.")  # higher: heads differ more
BY_HEADS = ("Sub.", "Pos.", "Out.")  # of unrelated heads the higher, the more heads there are


def contradictions(results: list[dict]) -> list[str]:
    """Say in one sentence of each model where its measures contradict each other.

    Every model but the first is set beside the first one, by the means over all layers and
    components, unless these are of other components, as of a language model beside a translation
    model. A measure that moves by less than 0.01 says nothing. ``results`` are of
    ``diverse_mha.analysis.run.analyze``.

    Returns:
        A sentence for each model whose heads differ more by some measures and less by others.
    """
    first = _means(results[0])
    sentences = []
    for result in results[1:]:
        if {*compared(result)} != {*compared(results[0])}:
            continue
        more, less = [], []
        for heading, value in _means(result).items():
            before = first.get(heading)
            if before is None or value is None or abs(value - before) < NOTABLE:
                continue
            if heading in BY_HEADS and _heads(result) != _heads(results[0]):
                continue
            apart = (value > before) == (heading in DIFFER)
            (more if apart else less).append(f"{heading} ({before:.3f} to {value:.3f})")
        if more and less:
            sentences.append(
                f"The measures contradict each other: beside {results[0]['name']} the heads of "
                f"{result['name']} differ more by {_listed(more)} and are more alike by "
                f"{_listed(less)}; name the measure with whatever is said of them."
            )
    return sentences


def _heads(result: dict) -> dict[str, int]:
    return {name: component["heads"] for name, component in result["components"].items()}


def _means(result: dict) -> dict[str, float | None]:
    values = zip(headings_of(result), summary_rows(result)["mean"], strict=True)
    return {heading: value for heading, value in values if heading in ALIKE + DIFFER}


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
