"""Language models that are measured together read the same positions of a text."""

from types import SimpleNamespace

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.loaded import Loaded, share_blocks


def loaded(path, **options):
    return Loaded(path, "transformer_lm", None, SimpleNamespace(cfg=SimpleNamespace(**options)))


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, None),
        ({"sample_break_mode": None, "add_bos_token": False}, None),
        (
            {"sample_break_mode": "eos"},
            "b.pt: trained with --sample-break-mode eos, a.pt with none: .* one by one",
        ),
        ({"add_bos_token": True}, "b.pt: trained with --add-bos-token True, a.pt with False"),
    ],
)
def test_texts_that_are_cut_up_otherwise_are_refused(options, message, capsys):
    first = loaded("a.pt", tokens_per_sample=16, sample_break_mode="none")
    second = loaded("b.pt", **({"tokens_per_sample": 50} | options))
    again = loaded("b.pt", **vars(second.options()))  # as with --against b.pt
    models = [loaded("translation.pt", source_lang="de"), first, second, again]
    if message is None:
        share_blocks(models)
        assert [model.options().tokens_per_sample for model in models[1:]] == [16] * 3
        assert "on blocks of at most 16" in capsys.readouterr().err
        return
    with pytest.raises(UserError, match=message):
        share_blocks(models)
