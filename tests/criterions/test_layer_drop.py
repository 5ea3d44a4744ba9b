"""Terms of models that drop whole layers: what counts, and what the logs show."""

import pytest
from fairseq.logging import metrics

from tests.criterions.test_terms import COMPONENTS, criterion
from tests.toy import build_ours, toy_batch


def test_a_pass_that_layer_drop_left_without_a_layer_does_not_count():
    term = criterion(disagreement="output", disagreement_on="encoder")
    model = build_ours(encoder_layerdrop=0.999).train()
    model.set_num_updates(0)
    loss, size, log = term(model, toy_batch())
    loss.backward()
    assert log["term_size/disagreement_output/encoder"] == 0
    whole = build_ours(encoder_layerdrop=1e-9).train()
    whole.set_num_updates(0)
    _, _, other = term(whole, toy_batch())
    # Workers exchange tensors with tensors and numbers with numbers, under the same names.
    assert {k: type(v) for k, v in log.items()} == {k: type(v) for k, v in other.items()}
    with metrics.aggregate(new_root=True) as found:
        term.reduce_metrics([log, other])
    mean = float(other["term/disagreement_output/encoder"]) / size
    assert found.get_smoothed_values()["disagreement_output"] == pytest.approx(mean)


def test_under_layer_drop_a_logged_term_is_the_sum_of_the_means_of_its_components():
    """Whichever of them ran in a batch; the batches may be of one update or of several."""
    term = criterion(disagreement="output")
    batches = [toy_batch(), toy_batch(seed=9)]
    expected = {}
    logs = []
    for (encoder, decoder), batch in zip(((0.999, 1e-9), (1e-9, 0.999)), batches, strict=True):
        model = build_ours(encoder_layerdrop=encoder, decoder_layerdrop=decoder).train()
        _, size, log = term(model, batch)
        logs.append(log)
        for component in COMPONENTS:
            if log[f"term_size/disagreement_output/{component}"]:
                value = log[f"term/disagreement_output/{component}"]
                expected[component] = float(value) / size
    assert expected.keys() == set(COMPONENTS)
    with metrics.aggregate(new_root=True) as together:
        term.reduce_metrics(logs)
    with metrics.aggregate(new_root=True) as in_turn:
        for number, log in enumerate(logs):
            term.reduce_metrics([log])
            found = in_turn.get_smoothed_values()["disagreement_output"]
            assert (found is None) == (number == 0)  # of the encoder nothing is known yet
    for meters in (together, in_turn):
        shown = {k: v for k, v in meters.get_smoothed_values().items() if "disagreement" in k}
        assert shown == {"disagreement_output": pytest.approx(sum(expected.values()))}
