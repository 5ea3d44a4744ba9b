"""Settings of every test."""

import contextlib
import os
import signal
import sys

import pytest

# What a shell starts in the background ignores Ctrl-C, and so would the commands that tests stop.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    # Triton decides when it is imported, which torch for CUDA may do at any time, whether its own
    # functions are to be compiled for a GPU or interpreted. Where there is none it is not here.
    of_gpu = "gpu" in config.getoption("markexpr").replace("not gpu", "")
    if not of_gpu and "TRITON_INTERPRET" not in os.environ:
        os.environ["TRITON_INTERPRET"] = "1"
        with contextlib.suppress(ImportError):
            import triton.language  # noqa: F401
        del os.environ["TRITON_INTERPRET"]  # commands that tests start compile


def pytest_collection_finish():
    # Tiny tensors: a second thread costs more than it brings, and the machine may be busy.
    if "torch" in sys.modules:  # not in the process that hands out tests to others
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="session")
def miniatures(tmp_path_factory):
    """Folder with small binarised data of every kind."""
    from tests.reliability import miniature  # which imports torch

    folder = tmp_path_factory.mktemp("miniatures")
    miniature.write_all(folder)
    return folder
