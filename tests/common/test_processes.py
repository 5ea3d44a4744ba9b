"""Signals."""

import os
import signal

import pytest

from diverse_mha.common.processes import ended_in_order


def test_a_signal_lets_a_process_clean_up():
    with pytest.raises(SystemExit) as stopped, ended_in_order():
        os.kill(os.getpid(), signal.SIGTERM)
    assert stopped.value.code == 128 + signal.SIGTERM
