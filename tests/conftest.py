"""Settings of every test."""

import sys

from tests import warm


def pytest_collection_finish():
    # Tiny tensors: a second thread costs more than it brings, and the machine may be busy.
    if "torch" in sys.modules:  # not in the process that hands out tests to others
        sys.modules["torch"].set_num_threads(1)


def pytest_unconfigure():
    warm.close()
