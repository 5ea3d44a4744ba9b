"""Measures the heads of checkpoints over a split: head states, meters, importance."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from fairseq import utils

from diverse_mha.analysis.ablation import head_numbers, sites_of
from diverse_mha.analysis.against import AgainstMeter, check_same_data
from diverse_mha.analysis.importance import ABLATION, GRADIENT, measure_importance
from diverse_mha.analysis.results import Model
from diverse_mha.analysis.similarity import HeadsMeter, Selection, check_selection, summarise
from diverse_mha.analysis.view import take_sentence
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.checkpoints import (
    Loaded,
    batches_of,
    check_same_blocks,
    head_states,
    iterate_batches,
    load,
)


class Analysis(NamedTuple):
    """Result of :func:`analyze`."""

    result: Model
    sentences: list[dict]  # for the report's view, of ``view.take_sentence``


def open_models(
    paths: list[str],
    data: str,
    selection: Selection,
    *,
    against: str | None = None,
    cpu: bool = False,
) -> tuple[list[Loaded], Loaded | None]:
    """Load the models and check that they have the selected components, layers and split.

    Args:
        paths: checkpoints.
        data: folder of binarised data (fairseq-preprocess).
        selection: what will be measured.
        against: checkpoint to compare all others with.
        cpu: do not use a GPU.

    Returns:
        The models, and the model of ``against`` or None.
    """
    models = [load(path, data, cpu=cpu) for path in ([*paths, against] if against else paths)]
    check_same_blocks(models)
    depths = [{site.component: site.number for site in sites_of(one.model)} for one in models]
    for path, depth in zip(paths, depths, strict=False):
        check_selection(selection, depth, path)
    for loaded in models:
        batches_of(loaded, selection.subset, selection.max_tokens)
    # Skip sentences that are too long for any of the models.
    limit = utils.resolve_max_positions(*(loaded.longest() for loaded in models))
    models = [loaded._replace(limit=limit) for loaded in models]
    if not against:
        return models, None
    for loaded, depth in zip(models[:-1], depths, strict=False):
        check_same_data(loaded, models[-1], depth, depths[-1], selection)
    return models[:-1], models[-1]


def _first_sentences(loaded: Loaded, selection: Selection) -> set[int]:
    """Return the indices of the first sentences that are not too long for the models."""
    dataset = loaded.task.dataset(selection.subset)
    numbers, _ = dataset.filter_indices_by_size(np.arange(len(dataset)), loaded.longest())
    return {int(number) for number in numbers[: selection.sentences]}


def analyze(
    loaded: Loaded, selection: Selection, *, name: str = "", against: Loaded | None = None
) -> Analysis:
    """Measure the selected heads over a split, and their similarity to the model ``against``.

    ``name`` labels the model in results and progress bar.
    """
    kept = head_numbers(loaded.model)
    meter, count, viewed, sentences = HeadsMeter(selection, kept), 0, None, []
    comparison = AgainstMeter(selection) if against else None
    batches = iterate_batches(loaded, selection.subset, max_tokens=selection.max_tokens, label=name)
    for sample in batches:
        viewed = _first_sentences(loaded, selection) if viewed is None else viewed
        numbers = sample["id"].tolist()
        rows = [row for row, n in enumerate(numbers) if n in viewed]
        wanted = {*selection.states, "weights"} if rows else selection.states
        states = head_states(loaded.model, sample, tuple(wanted))
        try:
            meter.update(states)
            if comparison is not None:
                comparison.update(states, head_states(against.model, sample, ("outputs",)))
        except ValueError as error:  # NaN or infinity
            raise UserError(f"{loaded.path}: {error}") from error
        for row in rows:
            taken = take_sentence(loaded.task, sample, row, states, selection, kept)
            sentences.append(taken)
        count += len(numbers)
    heads = meter.result()
    result = Model(
        name,
        loaded.path,
        loaded.architecture,
        count,
        heads.components,
        heads.summary,
        heads.disagreement,
    )
    if {ABLATION, GRADIENT} & {*selection.measures}:
        means = meter.means() if selection.importance_of == "mean" else None
        result.importance, modules = measure_importance(loaded, selection, name, means)
        for component, layers in modules.items():
            for number, measures in layers.items():
                result.components[component].layers[number] |= measures
        result.summary = summarise(result.components)
    if comparison is not None:
        result.against = {
            c: replace(found, svcca_heads=kept[c, found.layer].spread(found.svcca_heads))
            for c, found in comparison.result().items()
        }
    return Analysis(result, sorted(sentences, key=lambda sentence: sentence["number"]))
