"""Options of criterions that are invalid or have no effect are refused."""

import pytest

from tests.criterions.test_terms import HSIC, ORTHOGONALITY, OUTPUT, criterion
from tests.toy import build_ours

BAD = {
    "--hsic-weight -1.0: must be 0 or a positive number": {"hsic_weight": -1.0},
    "--hsic-weight nan: must be": {"hsic_weight": float("nan")},
    "--hsic-on corss: unknown 'corss'; choose from": {**HSIC, "hsic_on": "corss"},
    "--hsic-samples 1: must be 2 or more": {**HSIC, "hsic_samples": 1},
    "--hsic-samples 100 has no effect with --hsic-weight 0; give a weight": {"hsic_samples": 100},
    "--orthogonality-weight -1.0: must be": {"orthogonality_weight": -1.0},
    "--orthogonality-cosine-projections o: unknown 'o'; choose from q, k, v": {
        **ORTHOGONALITY,
        "orthogonality_cosine_projections": "o",
    },
    "--orthogonality-cosine-projections q,q: 'q' is given twice": {
        "orthogonality_cosine_projections": "q,q"
    },
    "--orthogonality-cosine-projections q has no effect with --orthogonality-weight 0": {
        "orthogonality_cosine_projections": "q"
    },
    "--disagreement-weight 0.5 has no effect without --disagreement": {"disagreement_weight": 0.5},
    "--disagreement : unknown ''; choose from subspace": {"disagreement": ""},
    "--disagreement-form squared has no effect without --disagreement": {
        "disagreement_form": "squared"
    },
    "--disagreement-form square: unknown 'square'; choose from paper, centred": {
        **OUTPUT,
        "disagreement_form": "square",
    },
    "--disagreement-form paper,centred: paper excludes all other forms": {
        **OUTPUT,
        "disagreement_form": "paper,centred",
    },
    "--disagreement-form squared,off-diagonal: paper excludes all other forms, and squared": {
        **OUTPUT,
        "disagreement_form": "squared,off-diagonal",
    },
    "--disagreement-form centred: --disagreement position has no form 'centred'; choose from "
    "paper, sentence, off-diagonal, squared-difference": {
        "disagreement": "position",
        "disagreement_form": "centred",
    },
    "--cka-target 0.3 has no effect with --cka-weight 0; give a weight above 0": {
        "cka_target": 0.3
    },
    "--cka-target 1.5: must be from 0 to 1": {"cka_weight": 1.0, "cka_target": 1.5},
    "--hsic-weight much: must be 0 or a positive number": {"hsic_weight": "much"},
    "--hsic-weight encoder=1.0: must be 0 or": {"hsic_weight": "encoder=1.0"},
    "--orthogonality-on encoder,encoder: 'encoder' is given twice; name it once": {
        **ORTHOGONALITY,
        "orthogonality_on": "encoder,encoder",
    },
    "--diversity-start 5 has no effect without a term of a weight above 0": {"diversity_start": 5},
    "--diversity-end 5 has no effect": {
        **OUTPUT,
        "disagreement_weight": 0.0,
        "diversity_end": 5,
    },
    "--diversity-start -1: must be 0 or more": {**HSIC, "diversity_start": -1},
    "--diversity-warmup-updates -2: must be": {**HSIC, "diversity_warmup_updates": -2},
    "--diversity-end 6: must be above --diversity-start 2 plus --diversity-warmup-updates 4": {
        **HSIC,
        "diversity_start": 2,
        "diversity_warmup_updates": 4,
        "diversity_end": 6,
    },
    "--label-smoothing 1.5: must be at least 0 and below 1": {"label_smoothing": 1.5},
    "--ignore-prefix-size -1: must be 0 or more": {"ignore_prefix_size": -1},
}


@pytest.mark.parametrize("message", BAD)
def test_options_that_are_invalid_or_have_no_effect_are_refused(message):
    with pytest.raises(ValueError) as raised:
        criterion(**BAD[message])
    assert message in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("layers", "on", "message"),
    [
        ({"encoder_layers": 0}, "encoder", "has no 'encoder' attention; choose from cross, decod"),
        ({"decoder_layers": 0}, "cross", "has no 'cross' attention; choose from encoder"),
        ({"encoder_layers": 0, "decoder_layers": 0}, None, "--disagreement: the model has no lay"),
    ],
)
def test_a_term_without_layers_is_refused(layers, on, message):
    model = build_ours(**layers)
    with pytest.raises(ValueError, match=message):
        criterion(**OUTPUT, disagreement_on=on).check_model(model)
    if on is not None:
        criterion(**OUTPUT).check_model(model)


def test_a_term_that_compares_no_heads_accepts_a_single_head(monkeypatch):
    term, model = criterion(**OUTPUT), build_ours(encoder_attention_heads=1)
    with pytest.raises(ValueError, match="heads are compared with each other"):
        term.check_model(model)
    monkeypatch.setattr(term.diversity.terms[0], "compares", False)
    term.check_model(model)
