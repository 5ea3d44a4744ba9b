"""``diverse-mha reproduce``: list, dry runs and errors."""

import shlex

import pytest
import torch

from diverse_mha import cli
from diverse_mha.common.errors import UserError
from diverse_mha.training.run import Experiment, parse
from experiments.measures import MEASURES
from experiments.numbers import summary
from experiments.papers import PAPERS


def experiment(words: list[str]) -> Experiment:
    """Return the experiment of a command line of ``diverse-mha run``."""
    return parse(words)[0]


def reproduce(*words):
    return cli.run(["reproduce", *words])


def test_listing_shows_every_table_with_its_scales(capsys):
    assert reproduce("--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == sum(map(len, PAPERS.values())) == 45
    assert sum("smoke small paper" in line for line in lines) == 30
    assert any(line.startswith("yun2021   table-6            smoke - paper") for line in lines)


def test_dry_run_prints_commands_for_eight_gpus(capsys, tmp_path):
    assert reproduce("li2021", "5", "--scale", "paper", "--dry-run", "--out", str(tmp_path)) == 0
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if line.startswith("bash scripts/run.sh")]
    assert len(lines) == 16
    big = next(
        line
        for line in lines
        if "size=big method=disagreement_em_routing" in line and "zh_en" in line
    )
    assert "scripts/run.sh wmt17_zh_en --processes 8 " in big
    assert "bash data-prep/prepare-wmt14-en-de.sh" in out
    assert list(tmp_path.iterdir()) == []


def test_runs_and_corpora_are_written_below_the_current_folder(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reproduce("yun2021", "7", "--scale", "small", "--dry-run", "--rows", "baseline")
    out = capsys.readouterr().out
    assert f"checkpoint.save_dir={tmp_path}/runs/reproduce/small/runs/" in out
    assert f"prepare-ptb.sh --out {tmp_path}/data/ptb" in out
    assert f"task.data={tmp_path}/data/ptb/bin" in out


@pytest.mark.parametrize("scale", ["small", "smoke"])
def test_commands_without_gpus_have_cpu_options(scale, capsys, monkeypatch):
    """Without these options, fairseq would use all GPUs of the machine."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8 if scale == "smoke" else 0)
    reproduce("yun2021", "7", "--scale", scale, "--dry-run")
    out = capsys.readouterr().out.splitlines()
    runs = [shlex.split(line)[2:] for line in out if "scripts/run.sh" in line]
    assert len(runs) == 5 and all("common.cpu=true" in words for words in runs)
    assert all("--cpu" in experiment(words).options() for words in runs)
    assert not any("--processes" in line for line in out)


def test_commands_for_zheng_et_al_average_checkpoints_and_split_compounds(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    reproduce("zheng2021", "2", "--scale", "paper", "--dry-run")
    lines = capsys.readouterr().out.splitlines()
    runs = [shlex.split(line)[2:] for line in lines if "scripts/run.sh" in line]
    assert runs[0][:3] == ["wmt14_en_de_google", "--processes", "4"], "all GPUs are used"
    assert runs[1][:3] == ["iwslt14_de_en", "--processes", "2"], "one process per batch"
    whole = [experiment(words) for words in runs]
    averages = [
        one for one in whole if (one.pipeline.average, one.pipeline.average_by) == (10, "update")
    ]
    assert len(whole) == 4 and len(averages) == 2
    assert all("--compound-split" in one.options() for one in whole)
    assert all(one.data == "data/wmt14-en-de-google/bin" for one in averages)
    assert all(one.model.name == "averaged.pt" for one in averages)


def test_bleu_with_split_compounds_is_preferred():
    test = {"tokenised_bleu": 27.0, "tokenised_signature": "tok:none"}
    assert MEASURES["bleu"].read({"scores": {"test": test}}) == 27.0
    test |= {"compound_split_bleu": 27.4, "sacrebleu": 26.0}
    assert summary({"scores": {"test": test}}).startswith("BLEU 27.40")


def test_dry_run_prints_the_analyses_that_cells_need(capsys):
    reproduce("yun2021", "2", "--scale", "small", "--dry-run", "--rows", "enc-self")
    lines = [line for line in capsys.readouterr().out.splitlines() if "cli analyze" in line]
    assert len(lines) == 5 and all("--against runs/reproduce/small/runs/" in x for x in lines)
    assert all(".seed2." in line.partition("--against")[2] for line in lines), (
        "no model is compared with itself"
    )


@pytest.mark.integration
@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_every_table_has_commands_that_the_launcher_reads(scale, capsys):
    assert reproduce("all", "--scale", scale, "--dry-run") == 0
    out = capsys.readouterr().out
    commands = [shlex.split(x) for x in out.splitlines() if x.startswith("bash scripts/run.sh")]
    assert len(commands) > 60
    whole = [experiment(words[2:]) for words in commands]
    assert all(one.data for one in whole)
    folders = [one.run for one in whole]
    assert len(set(folders)) == len(folders), "every run has its own folder"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a paper and a table"),
        (["li2018", "1"], "--scale is missing; choose from smoke, small, paper"),
        (["li2018", "--scale", "smoke"], "name a table of li2018, or all"),
        (["li2017", "1", "--scale", "smoke"], "li2017: no such paper"),
        (["li2018", "7", "--scale", "smoke"], "7: li2018 has no such table"),
        (["li2021", "2", "--scale", "smoke"], "give li2018 table-2"),
        (
            ["yun2021", "6", "--scale", "small"],
            "--scale small: yun2021 6 has no such scale; choose from smoke, paper",
        ),
        (["li2018", "1", "--scale", "smoke", "--rows", "x"], "--rows x: li2018 table-1 has no row"),
        (["li2018", "all", "--scale", "smoke", "--rows", "x"], "--rows: needs a single table"),
        (["li2018", "1", "--scale", "smoke", "--seeds", "1,1"], "--seeds 1,1: give different"),
        (["li2018", "1", "--scale", "smoke", "--updates", "0"], "--updates: 0: expected a whole"),
        (["li2018", "1", "--scale", "smoke", "--jobs", "2", "--dry-run"], "--jobs 2 has no effect"),
        (
            ["li2018", "1", "--scale", "small", "--collect", "--jobs", "4"],
            "--jobs 4 has no effect with --collect",
        ),
        (["all", "table-1", "--scale", "smoke"], "table-1: is a table of one paper"),
    ],
)
def test_invalid_arguments_of_reproduce_are_reported_in_one_line(words, message, tmp_path):
    with pytest.raises(UserError, match=message) as error:
        reproduce(*words, "--out", str(tmp_path / "out"))
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_collect_without_finished_runs_writes_nothing(tmp_path, capsys):
    arguments = ["li2018", "1", "--scale", "smoke", "--collect", "--out", str(tmp_path / "out")]
    assert reproduce(*arguments) == 1
    assert "nothing is finished yet; to train, leave out --collect" in capsys.readouterr().out
    assert not list(tmp_path.rglob("*.md"))


def test_user_dir_is_passed_to_training_and_analysis(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "handed").mkdir()
    (tmp_path / "handed/__init__.py").write_text("import diverse_mha\n")
    arguments = ["yun2021", "5", "--scale", "small", "--rows", "baseline", "--dry-run"]
    assert reproduce(*arguments, "--user-dir", "handed") == 0
    lines = capsys.readouterr().out.splitlines()
    run, analyze = (
        next(line for line in lines if sign in line) for sign in ("scripts/run.sh", " analyze ")
    )
    assert (
        f"common.user_dir={tmp_path}/handed" in run and f"--user-dir {tmp_path}/handed" in analyze
    )
    assert f"{tmp_path}/handed" in experiment(shlex.split(run)[2:]).options()
    with pytest.raises(UserError, match="--user-dir .*json: another package has this name"):
        (tmp_path / "json").mkdir()
        (tmp_path / "json/__init__.py").touch()
        reproduce(*arguments, "--user-dir", str(tmp_path / "json"))
