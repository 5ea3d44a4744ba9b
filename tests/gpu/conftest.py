"""Tiny data, and processes that can use the GPU."""

import multiprocessing

import pytest
import torch

from tests.reliability import children


def _forks_lose_cuda() -> bool:
    return torch.cuda._is_in_bad_fork()


@pytest.fixture(scope="session")
def data(miniatures):
    """Data folders of every task. Processes are spawned if forked ones could not use CUDA."""
    if children.call(_forks_lose_cuda):
        children._CONTEXT = multiprocessing.get_context("spawn")
    return miniatures
