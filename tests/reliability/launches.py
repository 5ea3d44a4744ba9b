"""The commands that train a recipe, in processes forked off a server that has imported fairseq."""

import os
import runpy
import sys
from pathlib import Path

from diverse_mha.common.errors import run_cli
from diverse_mha.training import launch


def train_sh(words: list[str], folder: Path, log: Path) -> None:
    """Do what ``scripts/train.sh`` does once Python runs, from ``folder``.

    The launcher becomes fairseq by ``execv``, which would import everything anew: what it would
    become is run in its place.
    """
    _enter(folder, log)
    os.execv = _become
    run_cli(lambda: launch.main(words))


def hydra_train(words: list[str], folder: Path, log: Path) -> None:
    """Do what ``fairseq-hydra-train`` does, from ``folder``."""
    _enter(folder, log)
    from fairseq_cli.hydra_train import cli_main

    sys.argv = ["fairseq-hydra-train", *words]
    cli_main()


def _enter(folder: Path, log: Path) -> None:
    os.chdir(folder)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1), os.dup2(out, 2)


def _become(python: str, command: list[str]) -> None:
    module = command.index("-m") + 1
    sys.argv = command[module:]
    runpy.run_module(command[module], run_name="__main__", alter_sys=True)
