"""Language models that are measured together read the same positions of a text."""

from types import SimpleNamespace

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.loaded import Loaded, check_same_blocks


def loaded(path, **options):
    return Loaded(path, "transformer_lm", None, SimpleNamespace(cfg=SimpleNamespace(**options)))


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"sample_break_mode": "eos"},
            "b.pt: trained with --sample-break-mode eos, a.pt with none: .* one by one",
        ),
        ({"add_bos_token": True}, "b.pt: trained with --add-bos-token True, a.pt with none"),
        ({"tokens_per_sample": 50}, "b.pt: trained with --tokens-per-sample 50, a.pt with 16"),
    ],
)
def test_texts_that_are_cut_up_otherwise_are_refused(options, message):
    first = loaded("a.pt", tokens_per_sample=16, sample_break_mode="none")
    plain = {"tokens_per_sample": 16, "sample_break_mode": None, "add_bos_token": False}
    check_same_blocks([loaded("translation.pt", source_lang="de"), first, loaded("b.pt", **plain)])
    with pytest.raises(UserError, match=message):
        check_same_blocks([first, loaded("b.pt", **plain | options)])
