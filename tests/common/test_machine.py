"""Detection of a processor that supports bfloat16."""

import pytest

from diverse_mha.common.machine import computes_in_bfloat16


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("model name : X\nflags : fpu avx512f avx512_bf16 amx_tile\n", True),
        ("flags\t\t: fpu amx_bf16\n", True),
        ("Features : fp asimd bf16 i8mm\n", True),
        ("flags : fpu avx2 avx512f\n", False),
        ("model name : of a machine without a list\n", None),
    ],
)
def test_bfloat16_support_is_detected(tmp_path, text, answer):
    (tmp_path / "cpuinfo").write_text(text)
    assert computes_in_bfloat16(tmp_path / "cpuinfo") is answer


def test_environment_variable_overrides_the_detection(monkeypatch):
    for given in ("0", "1"):
        monkeypatch.setenv("DIVERSE_MHA_BFLOAT16", given)
        assert computes_in_bfloat16() is (given == "1")
