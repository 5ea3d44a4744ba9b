"""Settings and fixtures for all tests."""

import contextlib
import os
import signal
import sys

import pytest

# In the background, pytest ignores SIGINT. Commands that tests interrupt by SIGINT would inherit
# this setting.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Set by scripts/test.sh for itself: with it, every help text and error would name a script.
os.environ.pop("DIVERSE_MHA_SCRIPT", None)


def pytest_configure(config):
    # Triton decides at import whether its kernels are compiled or interpreted, and torch for CUDA
    # may import it at any time. Without Triton there is nothing to decide.
    of_gpu = "gpu" in config.getoption("markexpr").replace("not gpu", "")
    if not of_gpu and "TRITON_INTERPRET" not in os.environ:
        os.environ["TRITON_INTERPRET"] = "1"
        with contextlib.suppress(ImportError):
            import triton.language  # noqa: F401
        del os.environ["TRITON_INTERPRET"]  # so that commands started by tests compile kernels


@pytest.hookimpl(trylast=True)  # when -m has chosen
def pytest_collection_modifyitems(items):
    # Each process of pytest-xdist begins with a share of the tests, in order. Long ones are put at
    # the front of the shares: one begun last would leave the other processes without work.
    shares = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    files: dict[str, list[pytest.Item]] = {}  # tests of one file stay together, for its fixtures
    for item in items:
        if item.get_closest_marker("long"):
            files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    rest = [item for item in items if not item.get_closest_marker("long")]
    size = len(items) / shares
    ordered: list[pytest.Item] = []
    for share in range(shares):
        for several in list(files.values())[share::shares]:
            ordered += several
        missing = round((share + 1) * size) - len(ordered)
        ordered, rest = ordered + rest[:missing], rest[missing:]
    items[:] = ordered + rest


def pytest_collection_finish():
    # For tiny tensors a second thread is slower.
    if "torch" in sys.modules:  # xdist's controller does not import torch
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="session")
def local_table(tmp_path_factory):
    """Output folder of ``reproduce`` for a table of one row, with its corpora."""
    from tests.integration.conftest import fill_table
    from tests.shared import made_once

    return made_once(tmp_path_factory, "local-table", fill_table)


@pytest.fixture(scope="session")
def miniatures(tmp_path_factory):
    """Folder with small binarised data for every task."""
    from tests.reliability import miniature  # a late import, because miniature imports torch

    folder = tmp_path_factory.mktemp("miniatures")
    miniature.write_all(folder)
    return folder
