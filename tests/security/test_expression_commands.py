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
from diverse_mha.fairseq_fixes.checkpoint_options import check_options
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


def passing(group: str, name: str) -> list[str]:
    """Return the options whose texts pass the check of types, and are met by what builds."""
    found = []
    for option in fields(group, name):
        try:
            check_options("a.pt", {group: {"_name": name, option: EXPRESSION}})
        except UserError:
            continue
        found.append(option)
    return found


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
    """Run a command on checkpoints with all options, and all that pass the check of types."""
    states = []
    for (group, part), state in attacked.items():
        for options in (fields(group, part), passing(group, part)):
            if options:
                states.append(poisoned(state, None, group, options, EXPRESSION))
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = outcomes(COMMANDS[name][1], states, watch, monkeypatch)
    assert sum(found.values()) == len(states) > 1
    assert found["refused"] or name.startswith("average")


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMMANDS)
def test_all_options_of_a_model_of_ours_at_once(name, place, checkpoints, watch, monkeypatch):
    monkeypatch.chdir(place)
    of_kind = checkpoints[COMMANDS[name][0]]
    ours = next(key for key in of_kind if "_coda" in key[1] or key[1] == "sentence_classifier")
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
    """Each option that passes the check of types; the others end in the check, in every command."""
    kind, command = COMMANDS[name]
    monkeypatch.chdir(place)
    states = [
        poisoned(state, None, group, [option], EXPRESSION)
        for (group, part), state in checkpoints[kind].items()
        for option in passing(group, part)
    ]
    found = outcomes(command, states, watch, monkeypatch)
    assert sum(found.values()) == len(states) > 5
    with capsys.disabled():
        print(f"\n{name}: {dict(found)}")
