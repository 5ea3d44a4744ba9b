"""The translation criterion: fairseq's with nothing on, mean loss + weight * term with."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics

from diverse_mha.criterions import LabelSmoothedCrossEntropyWithDiversity as Ours
from diverse_mha.criterions.combined_terms import DiversityTerms
from diverse_mha.criterions.config import DiversityConfig
from diverse_mha.criterions.label_smoothed import LabelSmoothedDiversityConfig
from tests.reference import cosine_disagreement, position_disagreement
from tests.toy import build_ours, build_stock, toy_batch, toy_dictionary

TASK = SimpleNamespace(target_dictionary=toy_dictionary())


def ours(sentence_avg=False, **options):
    """Our criterion, built as fairseq builds it."""
    config = LabelSmoothedDiversityConfig(sentence_avg=sentence_avg, **options)
    return Ours.build_criterion(config, TASK)


def run(criterion, model, batch, **kwargs):
    model.zero_grad()
    loss, sample_size, log = criterion(model, batch, **kwargs)
    loss.sum().backward()
    grads = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]
    return loss.detach(), sample_size, log, grads


@pytest.mark.parametrize("sentence_avg", [False, True])
@pytest.mark.parametrize("accuracy", [False, True])
@pytest.mark.parametrize("weight", [None, 0.0], ids=["off", "weight-0"])
def test_without_a_term_it_is_fairseqs(weight, accuracy, sentence_avg):
    model, batch = build_ours(), toy_batch()
    extra = {"token_loss": "stock"}  # fused is equal to rounding only
    if weight is not None:
        extra |= {"disagreement": "output", "disagreement_weight": 0.0}
    criterion = ours(sentence_avg, label_smoothing=0.1, report_accuracy=accuracy, **extra)
    stock = LabelSmoothedCrossEntropyCriterion(TASK, sentence_avg, 0.1, 0, accuracy)
    loss, size, log, grads = run(criterion, model, batch)
    loss2, size2, log2, grads2 = run(stock, model, batch)
    assert torch.equal(loss, loss2) and size == size2
    assert {k: v for k, v in log.items() if not k.startswith("term")} == log2
    for grad, grad2 in zip(grads, grads2, strict=True):
        torch.testing.assert_close(grad, grad2, rtol=0, atol=0 if weight is None else 1e-9)


@pytest.mark.parametrize("how", ["stock", "fused"])
@pytest.mark.parametrize("prefix", [1, 3, 6])
def test_tokens_of_an_ignored_prefix_do_not_count(prefix, how):
    """Fairseq's loss is right, but it is divided by the number of all tokens."""
    model, batch = build_ours(), toy_batch(target_lengths=(4, 6, 2))
    tokens = [max(length - prefix, 0) for length in (4, 6, 2)]
    loss, size, log, _ = run(ours(ignore_prefix_size=prefix, token_loss=how), model, batch)
    stock = LabelSmoothedCrossEntropyCriterion(TASK, False, 0.0, prefix)
    torch.testing.assert_close(loss, run(stock, model, batch)[0])
    assert size == log["sample_size"] == log["ntokens"] == max(sum(tokens), 1)


@pytest.mark.parametrize("components", ["encoder", "cross,decoder", None])
def test_terms_equal_the_literal_sums_layers_averaged_components_added(components):
    model, batch = build_ours().double(), toy_batch()
    terms = DiversityTerms.from_config(
        DiversityConfig(disagreement="subspace,position,output", disagreement_on=components)
    )
    states = model(**batch["net_input"], return_head_states=terms.wanted)[1]["head_states"]
    values = terms.measure(states, sample_size=1)
    assert list(values) == [
        "disagreement_subspace",
        "disagreement_position",
        "disagreement_output",
    ]
    chosen = components.split(",") if components else list(states)
    expected = dict.fromkeys(values, 0.0)
    for name in chosen:
        for s in states[name]:
            share = 1 / len(states[name])
            queries, keys = s.query_padding_mask, s.key_padding_mask
            expected["disagreement_subspace"] += share * cosine_disagreement(s.values, keys)
            expected["disagreement_position"] += share * position_disagreement(
                s.weights, queries, keys
            )
            expected["disagreement_output"] += share * cosine_disagreement(s.outputs, queries)
    for name, value in values.items():
        assert float(sum(value.means.values())) == pytest.approx(expected[name].item(), rel=1e-6), (
            name
        )
        assert float(value.loss) == pytest.approx(-expected[name].item(), rel=1e-6), name


def test_loss_is_token_loss_minus_weight_times_d_times_sample_size():
    model, batch = build_ours(), toy_batch()
    stock = run(LabelSmoothedCrossEntropyCriterion(TASK, False, 0.1), model, batch)
    weighted = run(
        ours(label_smoothing=0.1, disagreement="output,position", disagreement_weight=0.5),
        model,
        batch,
    )
    log = weighted[2]
    d = log["term/disagreement_output"] + log["term/disagreement_position"]
    assert d < 0
    torch.testing.assert_close(weighted[0], stock[0] - 0.5 * d)
    for name in ("loss", "nll_loss"):
        torch.testing.assert_close(log[name], stock[2][name])  # comparable with the baseline's


def test_padding_changes_no_term_and_no_gradient():
    model = build_ours().double()
    criterion = ours(label_smoothing=0.1, disagreement="subspace,position,output")
    narrow = run(criterion, model, toy_batch())
    wide = run(criterion, model, toy_batch(extra_padding=4))
    torch.testing.assert_close(narrow[0], wide[0], rtol=1e-6, atol=0)
    for grad, grad2 in zip(narrow[3], wide[3], strict=True):
        torch.testing.assert_close(grad, grad2, rtol=1e-4, atol=1e-6)


def test_every_term_is_logged_under_its_name():
    model, batch = build_ours().eval(), toy_batch()
    criterion = ours(label_smoothing=0.1, disagreement="subspace,output")
    with torch.no_grad():
        logs = [criterion(model, batch)[2], criterion(model, toy_batch(seed=9))[2]]
    with metrics.aggregate() as meters:
        Ours.reduce_metrics(logs)
    logged = meters.get_smoothed_values()
    assert {"loss", "nll_loss", "ppl"} <= set(logged)
    sizes = sum(log["sample_size"] for log in logs)
    for name in ("disagreement_subspace", "disagreement_output"):
        mean = sum(float(log["term/" + name]) for log in logs) / sizes
        assert float(logged[name]) == pytest.approx(mean, abs=1e-4)
        assert -1 <= mean <= 0
    assert "disagreement_position" not in logged


def test_losses_per_token_carry_no_term():
    model, batch = build_ours(), toy_batch()
    per_token = run(ours(label_smoothing=0.1, disagreement="output"), model, batch, reduce=False)
    stock = run(LabelSmoothedCrossEntropyCriterion(TASK, False, 0.1), model, batch, reduce=False)
    assert torch.equal(per_token[0], stock[0])


def test_a_term_pulls_the_heads_apart():
    model, batch = build_ours(), toy_batch()
    criterion = ours(label_smoothing=0.1, disagreement="output", disagreement_weight=10.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    values = []
    for _ in range(20):
        loss, size, log = criterion(model, batch)
        (loss / size).backward()
        optimizer.step()
        optimizer.zero_grad()
        values.append(float(log["term/disagreement_output"]) / size)
    assert values[-1] > values[0] + 0.1


BAD = {
    "--disagreement outputs: unknown 'outputs'; choose from subspace, position, output": {
        "disagreement": "outputs"
    },
    "--disagreement output,output: 'output' is given twice": {"disagreement": "output,output"},
    "--disagreement-on encoder,corss: unknown 'corss'; choose from encoder, cross, decoder": {
        "disagreement": "output",
        "disagreement_on": "encoder,corss",
    },
    "--disagreement-on encoder has no effect without --disagreement": {
        "disagreement_on": "encoder"
    },
    "--disagreement-weight 0.5 has no effect without --disagreement": {"disagreement_weight": 0.5},
    "--disagreement ,: unknown ''": {"disagreement": ","},
    "--label-smoothing 1.5: must be at least 0 and below 1": {"label_smoothing": 1.5},
    "--disagreement-weight -1.0: must be 0 or a positive number": {"disagreement_weight": -1.0},
    "--ignore-prefix-size -1: must be 0 or more": {"ignore_prefix_size": -1},
    "--disagreement-weight nan: must be": {"disagreement_weight": float("nan")},
}


@pytest.mark.parametrize("message", BAD)
def test_impossible_options_are_refused_by_name(message):
    with pytest.raises(ValueError, match=message):
        ours(**{"label_smoothing": 0.1, **BAD[message]})


def test_a_model_that_shows_no_heads_is_refused():
    criterion = ours(disagreement="output")
    for refuse in (criterion.check_model, lambda model: criterion(model, toy_batch())):
        with pytest.raises(ValueError, match="a TransformerModel does not; give --arch"):
            refuse(build_stock())
    ours().check_model(build_stock())  # with no term on, any model will do


def test_a_component_the_model_lacks_is_refused():
    terms = DiversityTerms.from_config(
        DiversityConfig(disagreement="output", disagreement_on="cross")
    )
    with pytest.raises(ValueError, match="the model has no 'cross' attention; choose from decoder"):
        terms.check_heads({"decoder": 4})
    criterion = ours(disagreement="output", disagreement_on="cross")
    criterion.check_model(build_ours())
    with pytest.raises(ValueError, match="no 'cross' attention; choose from encoder, decoder"):
        criterion.check_model(build_ours(no_cross_attention=True))
