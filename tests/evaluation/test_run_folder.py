"""A run's folder is evaluated with the settings of its recipe."""

import os
import shutil
from dataclasses import asdict

import pytest
import torch
from fairseq.dataclass.configs import GenerationConfig

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.average import average_checkpoints
from diverse_mha.evaluation.evaluate import build_parser
from diverse_mha.evaluation.fairseq_command import parse_with_fairseqs
from diverse_mha.evaluation.run_folder import open_folders
from diverse_mha.evaluation.states import write_state


def write(path, value, scoring, **search):
    generation = asdict(GenerationConfig()) | search
    groups = {"task": {"_name": "exact_translation"}, "model": {}, "eval_lm": {}}
    cfg = groups | {"generation": generation, "scoring": scoring}
    torch.save({"model": {"w": torch.tensor([float(value)])}, "cfg": cfg, "extra_state": {}}, path)


@pytest.fixture
def run(tmp_path):
    scoring = {"average": 2, "average_by": "update", "score": "compound_split_bleu"}
    for number in (1, 2, 3):
        name = tmp_path / f"checkpoint_1_{number}.pt"
        write(name, number, scoring, beam=4, lenpen=0.6, max_len_a=1.2)
    os.link(name, tmp_path / "checkpoint_last.pt")
    write(tmp_path / "checkpoint_best.pt", 2, {})
    return tmp_path


def test_averaging_and_search_follow_the_recipe_unless_options_are_given(run, capsys):
    arguments = [str(run), "bin", "--lenpen", "1.5"]
    args, inputs = parse_with_fairseqs(build_parser(), arguments, {})
    assert inputs.checkpoint == str(run / "averaged.pt")
    assert torch.load(inputs.checkpoint)["model"]["w"] == 2.5, (
        "the last two checkpoints are averaged"
    )
    assert (args.beam, args.lenpen, args.compound_split) == (4, 1.5, True)
    assert inputs.extra == ("--max-len-a=1.2",)
    options = "--beam=4 --lenpen=0.6 --max-len-a=1.2 --compound-split"
    assert capsys.readouterr().out == f"{run}: its recipe uses averaged.pt {options}\n"
    before = (run / "averaged.pt").stat().st_mtime_ns
    arguments = [str(run), "bin", "--no-compound-split"]
    assert not parse_with_fairseqs(build_parser(), arguments, {})[0].compound_split
    assert (run / "averaged.pt").stat().st_mtime_ns == before, "the average is written once"
    os.utime(run / "averaged.pt", (1, 1))
    open_folders(str(run), [])
    assert (run / "averaged.pt").stat().st_mtime_ns > before, "an outdated average is replaced"


def test_without_a_recipe_the_best_checkpoint_and_defaults_are_used(run):
    (run / "checkpoint_last.pt").unlink()
    args, inputs = parse_with_fairseqs(build_parser(), [str(run), "bin"], {})
    assert inputs.checkpoint == str(run / "checkpoint_best.pt")
    assert (args.beam, args.lenpen, args.compound_split, inputs.extra) == (5, 1.0, False, ())


def test_an_option_of_the_recipe_that_is_refused_has_a_cure(run):
    write(run / "checkpoint_last.pt", 3, {}, replace_unk="")
    with pytest.raises(UserError, match="--replace-unk: .*; the recipe has it: name a checkpoint"):
        parse_with_fairseqs(build_parser(), [str(run), "bin"], {})
    with pytest.raises(UserError, match="--replace-unk: copies words .*; leave it out"):
        parse_with_fairseqs(
            build_parser(), [str(run / "checkpoint_1_1.pt"), "b", "--replace-unk"], {}
        )


def test_a_checkpoint_named_by_its_path_does_not_use_the_recipe(run):
    words = [str(run / "checkpoint_last.pt"), "bin"]
    args, inputs = parse_with_fairseqs(build_parser(), words, {})
    assert inputs.checkpoint == str(run / "checkpoint_last.pt") and args.beam == 5


def test_too_few_checkpoints_for_the_recipe_have_a_cure_that_the_command_knows(run):
    (run / "checkpoint_1_1.pt").unlink()
    (run / "checkpoint_1_2.pt").unlink()
    few = "its recipe averages 2 checkpoints: only 1 file checkpoint_<epoch>_<N>.pt found"
    with pytest.raises(UserError, match=f"{few}; name a checkpoint$"):
        open_folders(str(run), [])


@pytest.mark.parametrize(
    ("names", "newer"),
    [
        (["checkpoint1.pt", "checkpoint2.pt"], True),
        (["checkpoint1.pt", "checkpoint2.pt"], False),
        (["checkpoint_1_3.pt"], False),
        (["checkpoint_best.pt", "checkpoint_1_3.pt"], True),
        (["checkpoint_1_1.pt", "checkpoint_1_2.pt"], True),
    ],
)
def test_a_users_average_of_other_checkpoints_is_neither_evaluated_nor_replaced(run, names, newer):
    shutil.copy(run / "checkpoint_1_1.pt", run / "checkpoint1.pt")
    shutil.copy(run / "checkpoint_1_2.pt", run / "checkpoint2.pt")
    output = run / "averaged.pt"
    write_state(average_checkpoints([run / name for name in names]), output)
    if not newer:
        os.utime(output, (1, 1))
    before = output.read_bytes()
    message = f"averaged.pt: is the average of .*{names[0]} to .*newest 2 by update as in the rec"
    with pytest.raises(UserError, match=message):
        open_folders(str(run), [])
    assert output.read_bytes() == before
    output.rename(run / "mine.pt")
    name, _ = open_folders(str(run), [])
    assert torch.load(name)["model"]["w"] == 2.5


@pytest.mark.parametrize("left", [(), ("1_1",), ("1_1", "1_2", "1_3")])
def test_an_average_of_the_recipe_is_used_after_its_checkpoints_were_deleted(run, left):
    name, _ = open_folders(str(run), [])
    before = (run / "averaged.pt").stat().st_mtime_ns
    for path in run.glob("checkpoint_1_*.pt"):
        if path.stem.removeprefix("checkpoint_") not in left:
            path.unlink()
    assert open_folders(str(run), [])[0] == name
    assert (run / "averaged.pt").stat().st_mtime_ns == before


def test_a_folder_without_checkpoints_or_with_a_foreign_average_is_refused(run, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty: has no checkpoint_best.pt.*; name a checkpoint"):
        open_folders(str(tmp_path / "empty"), [])
    write(run / "averaged.pt", 1, {})
    os.utime(run / "averaged.pt", (1, 1))
    with pytest.raises(UserError, match=r"averaged.pt: was not written by diverse-mha average"):
        open_folders(str(run), [])
