"""Files and folders locked by a process."""

import errno
import fcntl
import subprocess
import sys

import pytest
from fairseq import checkpoint_utils

from diverse_mha.common.errors import UserError
from diverse_mha.common.locks import hold, sole_use
from tests.fairseq_fixes.training import training

#: Program that tries to lock a folder, prints True if it could, and waits. With "fork", it also
#: starts a child process.
HOLDS = """
import os, sys

from diverse_mha.common.locks import hold
held = hold(sys.argv[1])
if "fork" in sys.argv:
    born, say = os.pipe()
    if os.fork() == 0:
        os.close(1)
        os.write(say, b".")
        sys.stdin.read()
        os._exit(0)
    os.read(born, 1)
print(held, flush=True)
sys.stdin.read()
"""


def start(*arguments):
    words = [sys.executable, "-c", HOLDS, *map(str, arguments)]
    other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "True\n"
    return other


@pytest.fixture
def holder(tmp_path):
    with start(tmp_path) as other:
        yield other


def test_folder_lock_lasts_until_the_process_ends(holder, tmp_path):
    assert not hold(tmp_path)
    assert hold(tmp_path / "elsewhere"), "a missing folder is not locked"
    holder.kill()
    holder.wait()
    assert hold(tmp_path) and hold(tmp_path), "a process may lock its folder again"
    assert not list(tmp_path.iterdir())


def test_forks_do_not_inherit_the_lock(tmp_path):
    with start(tmp_path, "fork") as other:
        assert not hold(tmp_path)
        other.kill()
        other.wait()
        assert hold(tmp_path), "a child that is still alive holds no lock"


@pytest.mark.usefixtures("holder")
def test_a_second_training_in_the_same_folder_is_refused(tmp_path):
    config, trainer = training(tmp_path)
    with pytest.raises(UserError, match=f"--save-dir {tmp_path}: in use by another training"):
        checkpoint_utils.load_checkpoint(config, trainer)
    trainer.is_data_parallel_master = False
    checkpoint_utils.load_checkpoint(config, trainer)
    trainer.is_data_parallel_master, config.no_save = True, True
    checkpoint_utils.load_checkpoint(config, trainer)
    assert trainer.load_checkpoint.call_args.args[0] == f"{tmp_path}/checkpoint_last.pt"


def test_sole_use_ends_with_its_block_and_refuses_a_file_system_without_locks(
    tmp_path, monkeypatch
):
    with sole_use(tmp_path / "run"):
        with pytest.raises(UserError, match="another run is at work"), sole_use(tmp_path / "run"):
            pass
        assert hold(tmp_path / "run"), "a command of the run may lock the folder itself"
    with sole_use(tmp_path / "run"):
        pass

    def missing(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", missing)
    with pytest.raises(OSError, match="No locks"), sole_use(tmp_path / "run"):
        pass
    assert hold(tmp_path), "a training goes on without a lock"
