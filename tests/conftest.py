"""Settings of every test."""

import torch

from tests import warm

# Tiny tensors: a second thread costs more than it brings, and the machine may be busy.
torch.set_num_threads(1)


def pytest_unconfigure():
    warm.close()
