"""The checkpoint that a training starts from."""

from dataclasses import make_dataclass

import pytest
from fairseq import checkpoint_utils

from diverse_mha.attention import AGGREGATION
from diverse_mha.common.errors import UserError
from diverse_mha.common.options import Method, option
from diverse_mha.fairseq_fixes.same_run import LAST, check_start
from diverse_mha.methods.term import TERMS
from tests.criterions.test_terms import criterion
from tests.fairseq_fixes.training import training
from tests.toy import build_ours

OPTIONS = {"restore_file": LAST, "finetune_from_model": None, "continue_once": None}
CASES = {
    "nothing-given": ({}, None),
    "restore": ({"restore_file": "other/a.pt"}, None),
    "restore-nowhere": ({"restore_file": "b.pt"}, "--restore-file b.pt: .*; check the name"),
    "restore-in-run": ({"restore_file": "c.pt"}, "--restore-file c.pt: .*; give run/c.pt"),
    "restore-over-the-last": ({"restore_file": "b.pt", "last": True}, "--restore-file b.pt"),
    "finetune": ({"finetune_from_model": "other/a.pt"}, None),
    "finetune-nowhere": ({"finetune_from_model": "b.pt"}, "--finetune-from-model b.pt"),
    "finetune-under-way": ({"finetune_from_model": "b.pt", "last": True}, None),
    "continue": ({"continue_once": "other/a.pt", "finetune_from_model": "b.pt"}, None),
    "continue-nowhere": ({"continue_once": "b.pt"}, "--continue-once b.pt: no such checkpoint"),
    "continue-under-way": ({"continue_once": "b.pt", "last": True}, None),
    "a-folder": ({"restore_file": "other"}, "^--restore-file other: is a folder; .* such as a.pt$"),
    "finetune-a-folder": ({"finetune_from_model": "run"}, "--finetune-from-model run: is a folder"),
    "last-of-a-part": ({"suffix": "-shard0"}, None),
    "a-part": ({"restore_file": "other/a.pt", "suffix": "-shard0"}, "other/a-shard0.pt: no such"),
    "a-part-in-run": ({"restore_file": "c.pt", "suffix": "-b"}, "c-b.pt: .*; give run/c.pt$"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("run/c.pt", "run/c-b.pt", "other/a.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize("case", CASES)
def test_missing_checkpoint_to_start_from_is_refused(case, folder):
    given, message = CASES[case]
    options = {**OPTIONS, **given}
    suffix = options.pop("suffix", "")
    if options.pop("last", False):
        (folder / "run" / LAST).touch()
    config, trainer = training("run", **options)
    trainer.checkpoint_suffix = suffix
    if message is not None:
        for check in (
            lambda: check_start("run", **options, suffix=suffix),
            lambda: checkpoint_utils.load_checkpoint(config, trainer),
        ):
            with pytest.raises(UserError, match=message):
                check()
        assert not trainer.load_checkpoint.called
        return
    _, path = check_start("run", **options, suffix=suffix)
    checkpoint_utils.load_checkpoint(config, trainer)  # calls check_start, too
    assert trainer.load_checkpoint.call_args.args[0] == path, "fairseq opens the checked path"
    assert (folder / path).exists() == (case not in ("nothing-given", "last-of-a-part"))


def test_plugin_options_count_as_method_options(monkeypatch):
    """A plugin registers after our modules are imported."""
    for registry, owner in ((TERMS, criterion()), (AGGREGATION, build_ours())):
        options = make_dataclass("Options", [("mine_start", float, option(1.0, "of mine"))])
        before = owner.method_options
        monkeypatch.setitem(registry._methods, "mine", Method("mine", "mine", list, options))
        assert set(owner.method_options) == {*before, "mine_start"} != set(before)
