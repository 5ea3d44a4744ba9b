"""Options in a checkpoint are not run by any command that takes one."""

import importlib
import io
import logging
import shlex
import shutil
import sys
from collections import Counter

import pytest
import torch

from diverse_mha.common.errors import UserError
from tests.bad_input.harness import FAIRSEQ, start
from tests.security.expressions import (
    EXPRESSION,
    Watch,
    attempt,
    fields,
    healthy,
    poisoned,
    targets,
    task_of,
)
from tests.security.test_checkpoints import COMMANDS as TRANSLATING
from tests.security.test_checkpoints import FAIRSEQ as OPTIONS
from tests.security.test_checkpoints import ROOT

OTHERS = ("evaluate-lm", "evaluate-classifier", "fairseq-eval-lm")
VALIDATE = f"fairseq-validate {OPTIONS} --max-tokens 500"
COMMANDS = {
    **{name: ("translation", c) for name, c in TRANSLATING.items() if name not in OTHERS},
    "hub interface": ("translation", "hub"),
    "analyze, language model": ("language_modeling", "analyze bomb.pt bin"),
    "evaluate-lm": ("language_modeling", TRANSLATING["evaluate-lm"]),
    "fairseq-eval-lm": ("language_modeling", TRANSLATING["fairseq-eval-lm"]),
    "fairseq-validate, language model": (
        "language_modeling",
        f"{VALIDATE} --task language_modeling",
    ),
    "analyze, classifier": ("sentence_classification", "analyze bomb.pt pairs"),
    "evaluate-classifier": ("sentence_classification", TRANSLATING["evaluate-classifier"]),
}
#: Checkpoints of other shapes than the model that is trained or analysed, or subwords that need a
#: package: said by fairseq.
MISMATCHES = ("state_dict", "architectures match", "size mismatch", "Please install")


@pytest.fixture(scope="module")
def watch():
    return Watch()


@pytest.fixture(scope="module")
def place(whole, tmp_path_factory):
    """A folder of its own with data and good checkpoints."""
    folder = tmp_path_factory.mktemp("commands") / "world"
    shutil.copytree(whole, folder)
    (folder / "bombs").mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def checkpoints(place):
    """The checkpoints of each kind, by what is attacked in them."""
    folders = dict.fromkeys(("translation", "language_modeling"), str(place / "bin"))
    folders["sentence_classification"] = str(place / "pairs")
    made = {}
    for group, name in targets():
        task = task_of(group, name).removeprefix("diverse_")
        made.setdefault(task, {})[group, name] = healthy(group, name, folders)[0]
    return made


def command_line(command: str, monkeypatch):
    """Return a function that runs a command, and raises UserError where the process would end."""
    if command == "hub":
        from fairseq.models.transformer import TransformerModel

        plugin = f"{ROOT}/diverse_mha"
        load = TransformerModel.from_pretrained

        def begin():
            load(".", "bomb.pt", "bin", user_dir=plugin).translate("1 2 3")
    else:
        words = shlex.split(command)
        monkeypatch.setattr(sys, "argv", list(words))
        monkeypatch.setattr(sys, "stdin", io.StringIO("1 2 3\n"))
        monkeypatch.setattr(logging, "raiseExceptions", False)
        if words[0] in FAIRSEQ:
            importlib.import_module(FAIRSEQ[words[0]])
        begin = start(words)

    def run():
        try:
            begin()
        except SystemExit as end:
            if isinstance(end, UserError) or end.code not in (0, None):
                raise
        except Exception as error:  # fairseq raises no more special one
            if not any(text in str(error) for text in MISMATCHES):
                raise

    return run


def outcomes(command, states, watch, monkeypatch) -> Counter:
    """Run a command on each of some checkpoints, and count how it ends."""
    found = Counter()
    for state in states:
        torch.save(state, "bomb.pt")
        for name in ("checkpoint1.pt", "checkpoint_last.pt"):
            shutil.copy("bomb.pt", f"bombs/{name}")
        line = attempt(command_line(command, monkeypatch), watch)
        found["refused" if line else "not used"] += 1
    return found


def attack_at_once(name, attacked, watch):
    """Run a command on checkpoints that have the expression in all options of a part at once."""
    states = [
        poisoned(state, None, group, fields(group, part), EXPRESSION)
        for (group, part), state in attacked.items()
    ]
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = outcomes(COMMANDS[name][1], states, watch, monkeypatch)
    assert sum(found.values()) == len(states) > 0
    assert found["refused"] or name.startswith("average")


def ours_of(of_kind) -> tuple[str, str]:
    """Name the model of ours with the most options."""
    return next(key for key in of_kind if "_coda" in key[1] or key[1] == "sentence_classifier")


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMMANDS)
def test_all_options_of_a_model_of_ours_at_once(name, place, checkpoints, watch, monkeypatch):
    monkeypatch.chdir(place)
    of_kind = checkpoints[COMMANDS[name][0]]
    ours = ours_of(of_kind)
    attack_at_once(name, {ours: of_kind[ours]}, watch)


@pytest.mark.system
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMMANDS)
def test_all_options_at_once(name, place, checkpoints, watch, monkeypatch):
    monkeypatch.chdir(place)
    attack_at_once(name, checkpoints[COMMANDS[name][0]], watch)


@pytest.mark.system
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_alone(name, place, checkpoints, watch, monkeypatch, capsys):
    """Each option of a model of ours; tests/security/test_expressions.py builds all others."""
    kind, command = COMMANDS[name]
    monkeypatch.chdir(place)
    group, part = ours_of(checkpoints[kind])
    state = checkpoints[kind][group, part]
    states = [poisoned(state, None, group, [option], EXPRESSION) for option in fields(group, part)]
    found = outcomes(command, states, watch, monkeypatch)
    assert sum(found.values()) == len(states) > 5
    with capsys.disabled():
        print(f"\n{name}: {dict(found)}")
