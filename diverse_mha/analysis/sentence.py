"""The attention weights of one sentence, with its tokens."""

from collections.abc import Container
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from diverse_mha.analysis.collect import Selection
from diverse_mha.attention import HeadStates
from diverse_mha.common.errors import UserError


class Attention(NamedTuple):
    """The attention of a component: tokens of queries and keys, weights by layer."""

    queries: list[str]
    keys: list[str]
    layers: dict[int, Tensor]  # by layer number from 1, (H, T, S) float32, without padding


class SentenceAttention(NamedTuple):
    """The attention of all chosen components to one sentence."""

    number: int  # in the split, from 0: that of the line, and fairseq-generate's
    components: dict[str, Attention]

    @classmethod
    def take(
        cls,
        task: Any,
        sample: dict,
        place: int,
        states: dict[str, list[HeadStates]],
        selection: Selection,
    ) -> "SentenceAttention":
        """Take the sentence at a place out of fairseq's batch, whose ``states`` have ``weights``.

        ``task`` has the dictionaries; ``selection`` says which components and layers to take.
        """
        components = {}
        for component in selection.chosen(states):
            layers = states[component]
            # A pair of sentences has two rows; the first is shown.
            row = place * (layers[0].weights.size(0) // len(sample["id"]))
            queries, keys = _tokens(task, sample, component, row)
            real_t = _real(layers[0].query_padding_mask, row, layers[0].weights.size(2))
            real_s = _real(layers[0].key_padding_mask, row, layers[0].weights.size(3))
            weights = {}
            for number in selection.numbers(len(layers)):
                cells = layers[number - 1].weights[row].float().cpu()
                weights[number] = cells[:, real_t][:, :, real_s]
            components[component] = Attention(
                [queries[t] for t in real_t], [keys[s] for s in real_s], weights
            )
        return cls(int(sample["id"][place]), components)


def find_sentences(sample: dict, numbers: Container[int]) -> list[int]:
    """Places in a batch of the sentences of these numbers."""
    return [place for place, number in enumerate(sample["id"].tolist()) if number in numbers]


def check_sentence(numbers: range, dataset: Any, subset: str, longest: Any = None) -> None:
    """Refuse a first sentence that the split does not have, or the models cannot read."""
    if not numbers:
        return
    number = numbers[0]
    if not 0 <= number < len(dataset):
        raise UserError(
            f"--sentence {number}: {subset!r} has sentences 0 to {len(dataset) - 1}, numbered as "
            "fairseq-generate does"
        )
    if longest is not None:
        _, too_long = dataset.filter_indices_by_size(np.array([number]), longest)
        if too_long:
            raise UserError(f"--sentence {number}: is longer than the models read; name another")


def _real(padding: Tensor | None, row: int, length: int) -> list[int]:
    if padding is None:
        return list(range(length))
    return (~padding[row]).nonzero().flatten().tolist()


def _tokens(task: Any, sample: dict, component: str, row: int) -> tuple[list[str], list[str]]:
    """Tokens of the queries and of the keys, padding included.

    The decoder's positions are named by the word they read. The queries of the attention to
    the source are named by the word they are to predict, as in an alignment.
    """
    net_input = sample["net_input"]
    source = net_input["src_tokens"]
    if component == "encoder" or "prev_output_tokens" not in net_input:
        words = _words(task.source_dictionary, source[row])
        return words, words
    target = task.target_dictionary
    if component == "cross":
        return _words(target, sample["target"][row]), _words(task.source_dictionary, source[row])
    words = _words(target, net_input["prev_output_tokens"][row])
    return words, words


def _words(dictionary: Any, tokens: Tensor) -> list[str]:
    return [dictionary[int(token)] for token in tokens]
