"""Tiny data, and processes that may use the GPU."""

import multiprocessing

import pytest
import torch

from tests.reliability import children, miniature


def _forks_lose_cuda() -> bool:
    return torch.cuda._is_in_bad_fork()


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Data folders of every task; and processes made anew where forked ones may not use CUDA."""
    folder = tmp_path_factory.mktemp("miniature")
    miniature.write_all(folder)
    if children.call(_forks_lose_cuda):
        children._CONTEXT = multiprocessing.get_context("spawn")
    return folder
