"""The demo corpus as it is by default, made once for all tests that read it."""

import pytest

from diverse_mha.corpora.demo.corpus import sentence_pairs


@pytest.fixture(scope="session")
def pairs():
    return sentence_pairs(5500, seed=1)
