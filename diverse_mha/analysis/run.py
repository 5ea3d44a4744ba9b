"""Runs a split through checkpoints and measures their heads."""

from typing import NamedTuple

import numpy as np
from fairseq import utils

from diverse_mha.analysis.ablation import sites_of
from diverse_mha.analysis.against import AgainstMeter, check_same_data
from diverse_mha.analysis.importance import ABLATION, GRADIENT, measure_importance
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
    """Result of one pass over a split."""

    result: dict  # ready for JSON; see ``analyze``
    sentences: list[dict]  # of :func:`.view.take_sentence`


def open_models(
    paths: list[str],
    data: str,
    selection: Selection,
    *,
    against: str | None = None,
    cpu: bool = False,
) -> tuple[list[Loaded], Loaded | None]:
    """Load every model and check the selection and the split.

    ``data`` is the folder that fairseq-preprocess wrote, ``against`` a checkpoint to compare every
    other with; ``cpu`` stays on the CPU.

    Returns:
        The models, and the one to compare with or None.
    """
    models = [load(path, data, cpu=cpu) for path in ([*paths, against] if against else paths)]
    check_same_blocks(models)
    depths = [{site.component: site.number for site in sites_of(one.model)} for one in models]
    for path, own in zip(paths, depths, strict=False):
        check_selection(selection, own, path)
    for loaded in models:
        batches_of(loaded, selection.subset, selection.max_tokens)
    # Measured on the sentences that all models can read.
    limit = utils.resolve_max_positions(*(loaded.longest() for loaded in models))
    models = [loaded._replace(limit=limit) for loaded in models]
    if not against:
        return models, None
    for loaded, own in zip(models[:-1], depths, strict=False):
        check_same_data(loaded, models[-1], own, depths[-1], selection)
    return models[:-1], models[-1]


def _first_sentences(loaded: Loaded, selection: Selection) -> set[int]:
    """Return the numbers of the first sentences that the models read."""
    dataset = loaded.task.dataset(selection.subset)
    numbers, _ = dataset.filter_indices_by_size(np.arange(len(dataset)), loaded.longest())
    return {int(number) for number in numbers[: selection.sentences]}


def analyze(
    loaded: Loaded, selection: Selection, *, name: str = "", against: Loaded | None = None
) -> Analysis:
    """Run a split through a model, and compare its last layers with those of ``against``.

    Returns:
        ``result`` has ``name``, ``checkpoint``, ``architecture``, ``sentences``, what
        ``HeadsMeter.result`` returns, with importance its ``loss``, ``tokens``, ``of`` and
        ``spearman`` under ``importance`` and the rest of ``ImportanceMeter.result`` in the layers,
        and with ``against`` what ``AgainstMeter.result`` does.
    """
    meter, count, kept, sentences = HeadsMeter(selection), 0, None, []
    comparison = AgainstMeter(selection) if against else None
    batches = iterate_batches(loaded, selection.subset, max_tokens=selection.max_tokens, label=name)
    for sample in batches:
        kept = _first_sentences(loaded, selection) if kept is None else kept
        numbers = sample["id"].tolist()
        places = [place for place, n in enumerate(numbers) if n in kept]
        wanted = {*selection.states, "weights"} if places else selection.states
        states = head_states(loaded.model, sample, tuple(wanted))
        try:
            meter.update(states)
            if comparison is not None:
                comparison.update(states, head_states(against.model, sample, ("outputs",)))
        except ValueError as error:  # of NaN
            raise UserError(f"{loaded.path}: {error}") from error
        for place in places:
            sentences.append(take_sentence(loaded.task, sample, place, states, selection))
        count += len(numbers)
    result = {
        "name": name,
        "checkpoint": loaded.path,
        "architecture": loaded.architecture,
        "sentences": count,
        **meter.result(),
    }
    if {ABLATION, GRADIENT} & {*selection.measures}:
        means = meter.means() if selection.importance_of == "mean" else None
        result["importance"] = found = measure_importance(loaded, selection, name, means)
        for component, layers in found.pop("modules").items():
            for number, own in layers.items():
                result["components"][component]["layers"][number] |= own
        result["summary"] = summarise(result["components"])
    if comparison is not None:
        result["against"] = comparison.result()
    return Analysis(result, sorted(sentences, key=lambda sentence: sentence["number"]))
