"""A training that our script starts takes about the memory that fairseq's own takes."""

import pytest

from tests.reliability import memory

pytestmark = pytest.mark.system


def test_peak_at_4096_tokens_of_many_shapes(tmp_path):
    data = memory.make_data(tmp_path, pairs=3000)
    stock = memory.stock(data, updates=30)
    ours = memory.ours(data, updates=30, more=["--bf16", "--disagreement", "output"])
    assert ours <= memory.ALLOWED * stock, f"{ours / 2**20:.0f} and {stock / 2**20:.0f} MiB"
