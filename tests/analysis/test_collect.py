"""Measures of all attention modules of a model."""

import itertools
import json
import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from diverse_mha.analysis import attention_entropy, cka, jensen_shannon, svcca
from diverse_mha.analysis.against import AgainstMeter
from diverse_mha.analysis.results import to_json
from diverse_mha.analysis.similarity import HeadsMeter, real_rows
from diverse_mha.analysis.sites import Selection
from diverse_mha.attention import HeadStates
from diverse_mha.attention.sites import HeadNumbers
from diverse_mha.common.errors import UserError
from diverse_mha.common.options import parse_layers
from tests.reference import cosine
from tests.toy import build_ours, toy_batch

ALL = Selection(threshold=0.9)


def states_of(model, batch, selection=ALL):
    with torch.no_grad():
        return model(**batch["net_input"], return_head_states=selection.states)[1]["head_states"]


def sentence(states, i):
    """Return the head states of sentence ``i`` of a batch."""
    return {
        component: [HeadStates(*(None if x is None else x[i : i + 1] for x in s)) for s in layers]
        for component, layers in states.items()
    }


def widened(states, columns):
    """Return head states with further padding positions that hold NaN."""

    def widen(s):
        mask = {
            name: torch.nn.functional.pad(getattr(s, name), (0, columns), value=True)
            for name in ("query_padding_mask", "key_padding_mask")
        }
        vectors = {
            name: torch.nn.functional.pad(getattr(s, name), (0, 0, 0, columns), value=torch.nan)
            for name in ("values", "outputs")
        }
        weights = torch.nn.functional.pad(s.weights, (0, columns, 0, columns), value=torch.nan)
        return HeadStates(weights=weights, **vectors, **mask)

    return {component: [widen(s) for s in layers] for component, layers in states.items()}


def sites_in(states):
    """Return a site for each layer of head states."""
    return [
        SimpleNamespace(component=component, number=number, numbers=HeadNumbers.unpruned(heads))
        for component, layers in states.items()
        for number, s in enumerate(layers, 1)
        for heads in [s.outputs.size(1)]
    ]


def measure(parts, selection=ALL):
    sites = selection.resolve(sites_in(parts[0]))
    meter = HeadsMeter(sites, selection.measures, selection.threshold)
    for states in parts:
        meter.update(states)
    return to_json(meter.result())


def numbers(nested):
    """Return all numbers of a result in order."""
    if isinstance(nested, dict):
        nested = list(nested.values())
    if isinstance(nested, list):
        return [x for item in nested for x in numbers(item)]
    return [nested]


LENGTHS = (9, 7, 12, 8, 11, 10)


@pytest.fixture(scope="module")
def model():
    return build_ours(share_all_embeddings=True).double().eval()


@pytest.fixture(scope="module")
def batch():
    return toy_batch(LENGTHS, LENGTHS[::-1])


@pytest.fixture(scope="module")
def states(model, batch):
    return states_of(model, batch)


def test_batch_size_and_order_do_not_change_results(states):
    whole = measure([states])
    for order in ([0, 1, 2, 3, 4, 5], [5, 0, 3, 1, 4, 2]):
        parts = measure([sentence(states, i) for i in order])
        assert numbers(parts) == pytest.approx(numbers(whole), rel=1e-10, abs=1e-10)


def test_padding_does_not_change_results(states):
    found = measure([widened(states, 3)])
    assert numbers(found) == pytest.approx(numbers(measure([states])), rel=1e-10, abs=1e-10)


def test_pairwise_measures_equal_the_tensor_functions(states):
    result = measure([states])
    assert result["components"]["cross"]["positions"] == sum(LENGTHS)
    for component in ("encoder", "cross", "decoder"):
        for number, s in enumerate(states[component], start=1):
            layer = result["components"][component]["layers"][str(number)]
            heads = real_rows(s).chunk(4, dim=1)
            masks = s.query_padding_mask, s.key_padding_mask
            sharp = attention_entropy(s.weights, *masks)
            similar = [[svcca(x, y, 0.9) for y in heads] for x in heads]
            expected = {
                ("cka", "pairs"): [[cka(x, y) for y in heads] for x in heads],
                ("svcca", "pairs"): [[found.mean for found in row] for row in similar],
                ("svcca", "pairs_top"): [[found.top_mean for found in row] for row in similar],
                ("jsd", "pairs"): jensen_shannon(s.weights, *masks),
                ("jsd", "pairs_per_row"): jensen_shannon(s.weights, *masks, reduction="row"),
                ("entropy", "heads"): sharp.entropy,
                ("entropy", "heads_share_above_0.95"): sharp.sharp,
            }
            for (measure_name, key), values in expected.items():
                np.testing.assert_allclose(layer[measure_name][key], values, atol=1e-7)
            curve = similar[1][2].coefficients.tolist()
            assert layer["svcca"]["coefficients"]["2-3"] == pytest.approx(curve, abs=1e-9)
            upper = np.array(layer["cka"]["pairs"])[np.triu_indices(4, 1)]
            assert layer["cka"]["mean"] == pytest.approx(upper.mean())
    # The summary has means over the last layers and over all layers.
    rows = [[x["jsd"]["per_row"] for x in entry["layers"].values()]
            for entry in result["components"].values()]  # fmt: skip
    assert result["summary"]["jsd"]["last_per_row"] == pytest.approx(np.mean(rows, axis=0)[1])
    assert result["summary"]["jsd"]["mean_per_row"] == pytest.approx(np.mean(rows))


def test_mean_output_is_averaged_over_real_positions(states):
    meter = HeadsMeter(sites_in(states), ALL.measures)
    meter.update(states)
    for (component, number), means in meter.means().items():
        expected = real_rows(states[component][number - 1]).mean(dim=0)
        torch.testing.assert_close(means.flatten(), expected)
        assert means.size(0) == 4


def test_only_selected_measures_are_returned(model, batch):
    some = Selection(("cross",), "last", ("jsd",))
    result = measure([states_of(model, batch, some)], some)
    assert list(result["components"]) == ["cross"]
    assert list(result["components"]["cross"]["layers"]) == ["2"]
    assert list(result["components"]["cross"]["layers"]["2"]) == ["jsd"]
    assert result["disagreement"] is None


def test_models_with_one_head_have_no_pairwise_values(batch):
    heads = {f"{side}_attention_heads": 1 for side in ("encoder", "decoder")}
    result = measure([states_of(build_ours(**heads).eval(), batch)])
    layer = result["components"]["encoder"]["layers"]["1"]
    assert layer["cka"]["mean"] is layer["svcca"]["mean"] is layer["jsd"]["mean"] is None
    assert set(result["summary"]["cka"].values()) == {None}


def test_svcca_is_none_with_too_few_positions(model):
    result = measure([states_of(model, toy_batch((3, 2), (2, 2)))], ALL._replace(threshold=1.0))
    layer = result["components"]["decoder"]["layers"]["1"]
    assert layer["svcca"] is None and layer["cka"]["mean"] > 0
    assert result["summary"]["svcca"]["last"] is None


def test_unknown_components_and_layers_are_refused():
    decoder, encoder = (
        [SimpleNamespace(component=name, number=n) for n in range(1, depth + 1)]
        for name, depth in (("decoder", 2), ("encoder", 6))
    )
    with pytest.raises(UserError, match="--components encoder: x.pt has no .* it has decoder"):
        Selection(("encoder",)).resolve(decoder, "x.pt")
    assert Selection(layers=(2, 1)).resolve(decoder, "x.pt") == decoder[::-1]
    with pytest.raises(UserError, match="--layers 3: the decoder of x.pt has 2 layers"):
        Selection(layers=(3,)).resolve(encoder + decoder, "x.pt")
    layers = partial(parse_layers, "layers", words=("all", "last"))
    for bad in ("0", "1,,2", "first", "-1", ""):
        with pytest.raises(UserError, match="there is no layer .*; give numbers from 1 separated"):
            layers(bad)
    assert layers("3,1,3") == (1, 3) and layers("last") == "last"


@pytest.mark.parametrize("positions", [1, 2])
def test_similarity_is_none_with_one_or_two_positions(positions):
    """CKA of two positions is always 1."""
    states = states_of(build_ours().eval(), toy_batch((positions,), (positions,)))
    result = measure([states])
    assert all(
        layer["cka"] is layer["svcca"] is None
        for component in result["components"].values()
        for layer in component["layers"].values()
    )
    assert set(result["summary"]["cka"].values()) == {None}
    meter = AgainstMeter(sites_in(states), ALL.threshold)
    meter.update(states, states)
    for found in to_json(meter.result()).values():
        assert found["cka"] is found["svcca"] is found["svcca_each"] is None
    json.dumps(result, allow_nan=False)


def test_option_against_compares_last_layers_at_the_same_positions():
    single = build_ours(seed=2, encoder_attention_heads=1, decoder_attention_heads=1).eval()
    model, lengths = build_ours().eval(), [20, 17, 25, 13]
    meter = None
    rows = {}
    for seed in (1, 2):
        batch = toy_batch(lengths, lengths[::-1], seed=seed)
        states, other = (states_of(one, batch) for one in (model, single))
        meter = meter or AgainstMeter(sites_in(states), threshold=0.9)
        meter.update(states, other)
        for component in states:
            pair = real_rows(states[component][-1]), real_rows(other[component][-1])
            rows.setdefault(component, []).append(pair)
    for component, found in to_json(meter.result()).items():
        own, others = (torch.cat(side) for side in zip(*rows[component], strict=True))
        together = svcca(own, others, 0.9)
        each = [svcca(head, others, 0.9).mean for head in own.chunk(4, dim=1)]
        assert found["layer"] == 2
        assert found["cka"] == pytest.approx(cka(own, others), rel=1e-9)
        assert found["svcca"] == pytest.approx(together.mean, rel=1e-7)
        assert found["coefficients"] == pytest.approx(together.coefficients.tolist(), rel=1e-6)
        assert found["svcca_top"] == pytest.approx(together.top_mean, rel=1e-7)
        assert found["svcca_heads"] == pytest.approx(each, rel=1e-7)
        assert found["svcca_each"] == pytest.approx(sum(each) / 4, rel=1e-7)
    assert set(rows) == set(meter.result()) == {"encoder", "cross", "decoder"}


def literal(x, mask, product, pairs):
    """Return minus the mean product of two heads' rows, for each sentence and real position."""
    return [
        [
            -sum(float(product(x[b, i, t], x[b, j, t])) for i, j in pairs) / len(pairs)
            for t in range(x.size(2))
            if mask is None or not mask[b, t]
        ]
        for b in range(x.size(0))
    ]


@pytest.mark.parametrize("own", [True, False], ids=["all pairs", "i != j"])
def test_disagreement_equals_the_equations_of_li_2018(own):
    selection = Selection(measures=("disagreement",))
    states = states_of(build_ours().double().eval(), toy_batch(), selection)
    pairs = [(i, j) for i, j in itertools.product(range(4), repeat=2) if own or i != j]
    for component, scores in measure([states], selection)["disagreement"].items():
        expected = {"subspace": [], "position": [], "output": []}
        for s in states[component]:
            queries, keys = s.query_padding_mask, s.key_padding_mask
            for score, x, mask in (("subspace", s.values, keys), ("output", s.outputs, queries)):
                d = [value for row in literal(x, mask, cosine, pairs) for value in row]
                expected[score].append(sum(d) / len(d))
            d = [sum(row) for row in literal(s.weights, queries, torch.dot, pairs)]
            expected["position"].append(sum(d) / len(d))
        for name, d in expected.items():
            found = scores[name] if own else scores[name]["off_diagonal"]
            assert found["layers"] == pytest.approx([math.exp(value) for value in d], rel=1e-6)
            assert found["all"] == pytest.approx(math.exp(sum(d) / len(d)), rel=1e-6)


def test_a_layer_with_one_head_has_no_score_over_pairs_and_does_not_count_in_the_mean():
    selection = Selection(measures=("disagreement",))
    states = states_of(build_ours(encoder_layers=3).double().eval(), toy_batch(), selection)
    whole = measure([states], selection)["disagreement"]
    tensors = ("values", "weights", "outputs")
    single = {name: getattr(states["encoder"][1], name)[:, :1] for name in tensors}
    states["encoder"][1] = states["encoder"][1]._replace(**single)
    found = measure([states], selection)["disagreement"]
    for score, old in whole["encoder"].items():
        first, _, last = old["off_diagonal"]["layers"]
        new = found["encoder"][score]["off_diagonal"]
        assert new["layers"] == [first, None, last], "the other layers keep their scores"
        assert new["all"] == pytest.approx(math.sqrt(first * last))
        assert found["encoder"][score]["layers"][::2] == old["layers"][::2]
    assert found["cross"] == whole["cross"] and found["decoder"] == whole["decoder"]
    states["encoder"] = states["encoder"][1:2]
    alone = measure([states], selection)["disagreement"]["encoder"]["output"]["off_diagonal"]
    assert alone == {"layers": [None], "all": None}
