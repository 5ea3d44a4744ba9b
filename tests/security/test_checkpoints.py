"""Every command refuses a checkpoint that would run code when loaded."""

import contextlib
import os
import pickle
import shutil
import sys

import pytest
import torch

from diverse_mha.common.files import ROOT
from tests.bad_input.harness import Row, check
from tests.bad_input.test_training import TRAIN, TRANSLATE

pytestmark = pytest.mark.integration

PLUGIN = f"--user-dir {ROOT}/diverse_mha"
FAIRSEQ = f"bin --path bomb.pt {PLUGIN} --cpu --num-workers 0"
TRAINING = TRAIN.format(**TRANSLATE)
COMMANDS = {
    "average": "average bomb.pt -o averaged.pt",
    "average, as the second": "average best.pt bomb.pt -o averaged.pt",
    "average of a folder": "average bombs --last 1 -o averaged.pt",
    "analyze": "analyze bomb.pt bin",
    "analyze --against": "analyze best.pt bin --against bomb.pt",
    "evaluate": "evaluate bomb.pt bin",
    "evaluate an ensemble": "evaluate best.pt:bomb.pt bin",
    "evaluate-lm": "evaluate-lm bomb.pt bin",
    "translate": "translate bomb.pt bin",
    "align": "align bomb.pt bin",
    "prune": "prune bomb.pt bin --heads 1 --output pruned.pt",
    "export": "export bomb.pt exported.pt --format fairseq",
    "evaluate-classifier": "evaluate-classifier bomb.pt pairs",
    "fairseq-generate": f"fairseq-generate {FAIRSEQ} --gen-subset test",
    "fairseq-interactive": f"fairseq-interactive {FAIRSEQ} -s src -t tgt",
    "fairseq-validate": f"fairseq-validate {FAIRSEQ} --max-tokens 500 --task translation",
    "fairseq-eval-lm": f"fairseq-eval-lm {FAIRSEQ} --gen-subset test",
    "fairseq-train --restore-file": f"{TRAINING} --restore-file bomb.pt",
    "fairseq-train --finetune-from-model": f"{TRAINING} --finetune-from-model bomb.pt",
    "fairseq-train, resuming": f"{TRAINING} --save-dir bombs",
}


class Bomb:
    """Makes a folder when unpickled by an unsafe loader."""

    def __reduce__(self):
        return (os.mkdir, ("exploded",))


def write_bomb(folder, form):
    """Write ``bomb.pt``, a checkpoint with one malicious value, in a format that torch reads."""
    state = torch.load(folder / "best.pt", weights_only=True)
    state["extra_state"]["bomb"] = Bomb()
    if form == "a bare pickle":
        (folder / "bomb.pt").write_bytes(pickle.dumps({"model": {}, "args": Bomb()}))
    else:
        new = form == "zip"
        torch.save(state, folder / "bomb.pt", _use_new_zipfile_serialization=new)
    (folder / "bombs").mkdir(exist_ok=True)
    for name in ("checkpoint1.pt", "checkpoint_last.pt"):
        shutil.copy(folder / "bomb.pt", folder / "bombs" / name)


@pytest.fixture(scope="module")
def bomb(whole):
    """Write malicious checkpoints in torch's current format."""
    write_bomb(whole, "zip")


def test_the_unsafe_pickle_runs_code_without_the_guard(bomb, world):
    """If the unsafe pickle ran no code, the tests below would prove nothing."""
    with contextlib.suppress(RuntimeError):  # torch may fail after the code has run
        torch.load("bomb.pt", weights_only=False)
    assert (world / "exploded").is_dir()
    (world / "exploded").rmdir()


@pytest.mark.filterwarnings(r"ignore:\s*'\w+' is validated against ConfigStore")
@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_a_malicious_checkpoint_is_refused_and_runs_no_code(
    command, bomb, world, monkeypatch, capsys
):
    row = Row("bomb", command, "", "")
    name = "bombs/checkpoint" if "bombs" in command else "bomb.pt"
    check(row._replace(culprit=name, cure="refused"), world, monkeypatch, capsys)
    assert not (world / "exploded").exists()


@pytest.mark.parametrize("form", ["before 1.6", "a bare pickle"])
def test_malicious_checkpoints_in_older_formats_are_refused(
    form, whole, world, monkeypatch, capsys
):
    write_bomb(whole, form)
    check(Row("bomb", COMMANDS["evaluate"], "bomb.pt", "refused"), world, monkeypatch, capsys)
    assert not (world / "exploded").exists()


@pytest.mark.filterwarnings(r"ignore:\s*'\w+' is validated against ConfigStore")
def test_the_hub_interface_refuses_a_malicious_checkpoint(whole, world):
    from fairseq.models.transformer import TransformerModel

    write_bomb(whole, "zip")
    with pytest.raises(ValueError, match="bomb.pt: .*refused|bomb.pt: .*not a checkpoint"):
        TransformerModel.from_pretrained(".", "bomb.pt", "bin", user_dir=f"{ROOT}/diverse_mha")
    assert not (world / "exploded").exists()


@pytest.mark.filterwarnings(r"ignore:\s*'\w+' is validated against ConfigStore")
def test_user_dir_in_a_checkpoint_is_not_imported(world, monkeypatch, capsys):
    """An option that evaluate-lm passes on to fairseq has the value ``--user-dir=...``."""
    (world / "plugin_that_runs").mkdir()
    (world / "plugin_that_runs/__init__.py").write_text("import os; os.mkdir('exploded')\n")
    state = torch.load("lm.pt", weights_only=True)
    state["cfg"]["task"]["sample_break_mode"] = "--user-dir=plugin_that_runs"
    torch.save(state, "argument.pt")
    row = Row("argument", "evaluate-lm argument.pt bin", "--sample-break-mode", "choose from")
    check(row, world, monkeypatch, capsys)
    assert "plugin_that_runs" not in sys.modules
