"""Runs a split through checkpoints and measures their heads."""

from typing import NamedTuple

import numpy as np
from fairseq import utils

from diverse_mha.analysis.against import AgainstMeter, check_same_data
from diverse_mha.analysis.collect import HeadsMeter, Selection, check_selection, summarise
from diverse_mha.analysis.importance import ABLATION, GRADIENT, measure_importance
from diverse_mha.analysis.view import take_sentence
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.loaded import (
    Loaded,
    head_states,
    iterate_batches,
    load,
    share_blocks,
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
    """Load every model and check the selection on a first batch.

    ``data`` is the folder that fairseq-preprocess wrote, ``against`` a checkpoint to compare every
    other with; ``cpu`` stays on the CPU.

    Returns:
        The models, and the one to compare with or None.
    """
    subset, layers_of = selection.subset, {}
    models = [load(path, data, cpu=cpu) for path in ([*paths, against] if against else paths)]
    share_blocks(models)
    for loaded in models:
        sample = next(iterate_batches(loaded, subset, max_tokens=selection.max_tokens))
        states = head_states(loaded.model, sample, ("outputs",))
        layers_of[loaded.path] = {component: len(layers) for component, layers in states.items()}
    for path in paths:
        check_selection(selection, layers_of[path], path)
    # Measured on the sentences that all models can read.
    limit = utils.resolve_max_positions(*(loaded.longest() for loaded in models))
    models = [loaded._replace(limit=limit) for loaded in models]
    if selection.sentences:
        for loaded in models:
            _check_sentence(loaded, subset, selection.sentences[0])
    if not against:
        return models, None
    for loaded in models[:-1]:
        check_same_data(loaded, models[-1], layers_of[loaded.path], layers_of[against], selection)
    return models[:-1], models[-1]


def _check_sentence(loaded: Loaded, subset: str, number: int) -> None:
    dataset = loaded.task.dataset(subset)
    if number >= len(dataset):
        raise UserError(
            f"--sentence {number}: {subset!r} has sentences 0 to {len(dataset) - 1}, numbered as "
            "fairseq-generate does"
        )
    if dataset.filter_indices_by_size(np.array([number]), loaded.longest())[1]:
        raise UserError(f"--sentence {number}: is longer than the models read; name another")


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
    meter, sentences = HeadsMeter(selection), []
    count, comparison = 0, AgainstMeter(selection) if against else None
    batches = iterate_batches(loaded, selection.subset, max_tokens=selection.max_tokens, label=name)
    for sample in batches:
        numbers = sample["id"].tolist()
        places = [place for place, n in enumerate(numbers) if n in selection.sentences]
        wanted = {*selection.states, "weights"} if places else selection.states
        states = head_states(loaded.model, sample, tuple(wanted))
        measured = loaded.path
        try:
            meter.update(states)
            if comparison is not None:
                measured = f"{loaded.path} beside --against {against.path}"
                comparison.update(states, head_states(against.model, sample, ("outputs",)))
        except ValueError as error:  # of NaN
            raise UserError(f"{measured}: {error}") from error
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
