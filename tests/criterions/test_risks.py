"""One line at the start of a training says if such trainings are known to fail."""

import pytest

from tests.criterions.test_terms import HSIC, OUTPUT, criterion
from tests.models.test_language_model import build as build_lm
from tests.toy import build_ours, toy_batch

FULL = {**OUTPUT, "disagreement_weight": 1.0}
PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
EIGHT = {"encoder_attention_heads": 8, "decoder_attention_heads": 8}


def lines(caplog, model, name="label_smoothed_cross_entropy", **options) -> list[str]:
    """Return the log of the beginning of a training with these terms."""
    caplog.clear()
    with caplog.at_level("INFO"):
        criterion(name, **options).begin_training(model)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("options", "shape", "named"),
    [
        (FULL, {}, "4 encoder heads, 4 cross heads, 4 decoder heads"),
        ({**FULL, "disagreement_weight": 2.5}, {}, "disagreement output with weight 2.5"),
        ({**FULL, "disagreement": "position,subspace"}, {}, "disagreement subspace with"),
        ({**FULL, "disagreement_form": "centred"}, {}, "disagreement output with"),
        ({**FULL, "disagreement_on": "encoder"}, {}, "with 4 encoder heads:"),
        (FULL, {"decoder_attention_heads": 8}, "with 4 encoder heads:"),
        (FULL, {"encoder_normalize_before": True}, "with 4 cross heads, 4 decoder heads:"),
        ({**FULL, "diversity_warmup_updates": 10}, {}, "disagreement output with"),
    ],
)
def test_a_large_weight_of_disagreement_on_few_post_norm_heads_is_named(
    options, shape, named, caplog
):
    (line,) = lines(caplog, build_ours(**shape), **options)
    assert named in line and "docs/which-method.md" in line and "\n" not in line


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({**FULL, "disagreement_weight": 0.1}, {}),
        ({**FULL, "disagreement": "position"}, {}),
        ({**FULL, "disagreement_form": "squared"}, {}),
        ({**FULL, "disagreement": "subspace", "disagreement_form": "centred"}, {}),
        ({**FULL, "diversity_start": 1000}, {}),
        (FULL, PRE_NORM),
        (FULL, EIGHT),
        ({**FULL, "disagreement_on": "encoder"}, {"encoder_attention_heads": 8}),
        (HSIC, {}),
        ({}, {}),
    ],
)
def test_what_trained_in_our_study_is_not_named(options, shape, caplog):
    assert lines(caplog, build_ours(**shape), **options) == []


def test_language_models_have_their_own_norm(caplog):
    options = {**FULL, "name": "cross_entropy"}
    assert lines(caplog, build_lm(decoder_normalize_before=True), **options) == []
    (line,) = lines(caplog, build_lm(decoder_normalize_before=False), **options)
    assert "4 decoder heads:" in line


def test_an_update_does_not_repeat_the_line(caplog):
    loss, model = criterion(**FULL), build_ours()
    with caplog.at_level("INFO"):
        loss(model, toy_batch())
    assert caplog.records == []


def test_a_model_that_does_not_fit_is_refused_at_the_beginning():
    with pytest.raises(ValueError, match="heads are compared with each other"):
        criterion(**FULL).begin_training(build_ours(encoder_attention_heads=1))
