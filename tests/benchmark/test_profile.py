"""The profile puts operators together by kind; nothing here looks at speed."""

import pytest

from diverse_mha.benchmark import profile
from diverse_mha.benchmark.shapes import SHAPES, Shape
from diverse_mha.common.errors import UserError

pytestmark = pytest.mark.integration

TOY = Shape(16, 24, 2, 4, vocabulary=40, batch_tokens=64, mean_length=8)


@pytest.mark.parametrize(
    "operator, kind",
    [
        ("aten::mm", "matrix products"),
        ("aten::addmm", "matrix products"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention kernel"),
        ("aten::_log_softmax_backward_data", "softmax and token loss"),
        ("_MeanHSIC", "operators of this package"),
        ("ChunkedNetworkBackward", "operators of this package"),
        ("aten::native_layer_norm", "layer norm"),
        ("aten::add", profile.REST),
    ],
)
def test_operators_have_kinds(operator, kind):
    assert profile.kind_of(operator) == kind


def test_shares_are_of_the_whole_and_a_step():
    times = [("aten::mm", 6000.0), ("aten::bmm", 1000.0), ("aten::add", 3000.0)]
    first, second = profile.group(times, steps=2)
    assert first == ("matrix products", 3.5, 0.7, "aten::mm")
    assert second == (profile.REST, 1.5, 0.3, "aten::add")


def test_every_method_of_the_package_shows_up(monkeypatch, capsys):
    monkeypatch.setitem(SHAPES, "tiny", TOY)
    options = ["--shape", "tiny", "--steps", "1", "--threads", "1", "--device", "cpu"]
    assert profile.run([*options, "--variants", "all-three,coda"]) == 0
    tables = capsys.readouterr().out.split("| kind |")[1:]
    own = ["operators of this package" in table for table in tables]
    assert own == [False, True, True], "stock, all-three, coda"
    assert all("matrix products" in table for table in tables)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--steps", "0"], "--steps: 0 is not a whole number from 1 up"),
        (["--batch-tokens", "3"], "--batch-tokens: 3 is not a whole number from 16 up"),
        (["--variants", "nothing"], "unknown 'nothing'; choose from"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        profile.run(options)
