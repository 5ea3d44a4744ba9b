"""Tuning of hyperparameters by validation loss."""

import json
from functools import partial

import pytest

from diverse_mha import cli
from diverse_mha.common.errors import UserError
from diverse_mha.common.status import Status
from experiments import reproduce
from experiments.numbers import Choices
from experiments.papers import PAPERS
from experiments.tune import Trainer, read_sweep
from tests.experiments.conftest import Ended
from tests.integration.conftest import run

TABLE = ["reproduce", "study", "ptb", "--scale", "smoke", "--updates", "4"]
SWEEPS = ["--tune", "lr=0.001,0.002", "--tune", "dropout=0.1,0.2"]
#: For a part of a run's name, the validation loss of runs whose name contains it.
LOSS = {
    "hsic_weight": 1.0,
    "lr=0.001": 3.0,
    "lr=0.002": 4.0,
    "dropout=0.1": 2.9,
    "dropout=0.2": 2.8,
    "hsic": -1.0,
}


@pytest.fixture
def started(monkeypatch):
    """Replace trainings by a stand-in that writes a log with a loss; return the list of names."""
    names = []

    def start(step, log, jobs):
        if step.name == "train":
            names.append(log.parent.name)
            if "lr=9" in names[-1]:
                Status(2, 0, diverged=True).write(log.parent)
                raise UserError("train ended with exit code 1: update 3: the gradients are NaN or "
                                "infinite; lower the learning rate")  # fmt: skip
            loss = next(
                LOSS[key] for key in ("dropout=0.1", "dropout=0.2", *LOSS) if key in names[-1]
            )
            loss = loss * (-1 if "hsic" in names[-1] else 1)
            entry = {"epoch": 1, "valid_loss": loss, "valid_ppl": 2.0, "valid_num_updates": 4}
            text = f"num. shared model params: 1\n{json.dumps(entry)}\n"
            (log.parent / "train.log").write_text(text)
            Status(4, 1, finished=True).write(log.parent)
        assert step.name in ("prepare", "train"), "no test set is read"
        return Ended()

    monkeypatch.setattr(reproduce, "Trainer", partial(Trainer, start=start))
    return names


def test_each_row_is_tuned_and_its_choice_is_written(tmp_path, started, capsys):
    arguments = [*TABLE, "--rows", "baseline,hsic", *SWEEPS, "--out", str(tmp_path)]
    assert cli.run(arguments) == 0, capsys.readouterr().out
    assert len(started) == 8, "two rows with 2 + 2 settings each"
    tried = [
        ("hsic" in name, name.partition("lr=")[2].partition(".max")[0]) for name in started[:4]
    ]
    assert tried == [(False, "0.001"), (True, "0.001"), (False, "0.002"), (True, "0.002")]
    file = tmp_path / "smoke/tables/study-ptb-rows-4-updates-tune.json"
    rows = json.loads(file.read_text())["rows"]
    assert rows["baseline"] == {"optimization.lr": [0.001], "model.dropout": 0.2}
    assert rows["hsic"] == {"optimization.lr": [0.002], "model.dropout": 0.1}, (
        "each row has its own best settings"
    )
    printed = capsys.readouterr().out
    assert "baseline  lr=0.001, dropout=0.2      2.8000  chosen" in printed
    table = file.with_suffix(".csv").read_text().splitlines()
    assert table[0] == "row,settings,validation,choice" and len(table) == 9
    assert cli.run(arguments) == 0 and len(started) == 8, "nothing is trained again"
    for others in (["--rows", "hsic", *SWEEPS], ["--rows", "baseline,hsic", *SWEEPS[:2]]):
        with pytest.raises(UserError, match="has the choice of another --tune or other rows; move"):
            cli.run([*TABLE, *others, "--out", str(tmp_path)])
    dry = [*TABLE, "--rows", "hsic", "--tuned", str(file), "--dry-run", "--out", str(tmp_path)]
    assert cli.run(dry) == 0
    printed = capsys.readouterr().out
    assert "optimization.lr=[0.002]" in printed and "model.dropout=0.1" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*TABLE, "--tune", "lr"], "--tune lr: give a key and different values, as in lr=0.001"),
        ([*TABLE, "--tune", "heads=1,2"], "--tune heads=1,2: name the group too, as in model."),
        ([*TABLE, "--tune", "lr="], "--tune lr=: give a key and different values, as in lr=0.001"),
        ([*TABLE, "--tune", "lr=0.001,1e-3"], "--tune lr=0.001,1e-3: give a key and different"),
        (
            [*TABLE, "--tune", "lr=1,2", "--tune", "optimization.lr=3,4"],
            "--tune optimization.lr: is given twice; give all its values in one --tune",
        ),
        ([*TABLE, "--tune", "seed=1,2"], "the command or the table sets common.seed; leave it out"),
        ([*TABLE, "--tune", "max_update=4,5"], "or the table sets optimization.max_update; leave"),
        (
            [*TABLE, "--tune", "checkpoint.save_dir=a,b"],
            "or the table sets checkpoint.save_dir; leave it out",
        ),
        ([*TABLE, "--tune", "lr=1,2", "--dry-run"], "--dry-run has no effect with --tune; leave"),
        ([*TABLE, "--tuned", "no.json"], "--tuned no.json: no such file; --tune writes it"),
        (
            ["reproduce", "study", "all", "--scale", "smoke", "--tune", "lr=1,2"],
            "--tune: needs a single table; name one",
        ),
        (
            ["reproduce", "li2018", "3", "--scale", "smoke", "--tune", "lr=1,2"],
            "--tune: rows of li2018 table-3 have several trainings; use a table of the study",
        ),
    ],
)
def test_invalid_tuning_options_are_refused(words, message, tmp_path):
    with pytest.raises(UserError, match=message):
        cli.run([*words, "--out", str(tmp_path)])


def test_tuned_settings_of_another_table_are_refused(tmp_path):
    file = tmp_path / "a.json"
    content = {"paper": "study", "table": "logic", "scale": "smoke", "rows": {}}
    for table, message in (
        ("logic", "is for study logic smoke, not for study ptb smoke; tune this table"),
        ("ptb", "has no row baseline; tune it, or leave it out"),
    ):
        file.write_text(json.dumps(content | {"table": table}))
        with pytest.raises(UserError, match=message):
            cli.run([*TABLE, "--tuned", str(file), "--out", str(tmp_path)])


def test_an_option_of_a_rows_method_is_tuned_without_its_group(tmp_path, started):
    arguments = [
        *TABLE,
        "--rows",
        "hsic",
        "--tune",
        "hsic_weight=1e-8,1e-7",
        "--out",
        str(tmp_path),
    ]
    assert cli.run(arguments) == 0 and len(started) == 2


def test_a_value_that_diverges_is_never_chosen(tmp_path, started, capsys):
    arguments = [*TABLE, "--rows", "baseline", "--out", str(tmp_path)]
    assert cli.run([*arguments, "--tune", "lr=90,0.002"]) == 0
    file = tmp_path / "smoke/tables/study-ptb-rows-4-updates-tune.json"
    assert json.loads(file.read_text())["rows"] == {"baseline": {"optimization.lr": [0.002]}}
    assert "baseline,lr=90,diverged,\n" in file.with_suffix(".csv").read_text()
    assert cli.run([*arguments[:-1], str(tmp_path / "other"), "--tune", "lr=90,91"]) == 1
    assert "baseline: not chosen, all diverged\n" in capsys.readouterr().out


@pytest.mark.parametrize("content", [[], {"paper": "study"}, {"rows": {"baseline": [1]}}])
def test_a_file_without_tuned_settings_is_refused(content, tmp_path):
    file = tmp_path / "a.json"
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match="contains no choice; give the file that --tune wrote"):
        cli.run([*TABLE, "--tuned", str(file), "--out", str(tmp_path)])


@pytest.mark.integration
def test_a_row_is_tuned_and_then_uses_its_best_settings(local_table, tmp_path):
    data = local_table / "smoke/data"
    arguments = [*TABLE, "--rows", "baseline", "--out", tmp_path, "--data", data]
    run("diverse_mha.cli", *arguments, "--tune", "lr=0.001,1e30")
    (tried,) = tmp_path.glob("smoke/tables/*-tune.csv")
    assert "baseline,lr=1e+30,diverged,\n" in tried.read_text()
    runs = list(tmp_path.glob("smoke/runs/*"))
    written = {path.name for path in tmp_path.glob("smoke/runs/*/*.json")}
    assert len(runs) == 2 and written == {"status.json"}, "no test set is read"
    (file,) = tmp_path.glob("smoke/tables/*-tune.json")
    done = run("diverse_mha.cli", *arguments, "--tuned", file)
    assert "test perplexity" in done.stdout
    assert f"Every row has its own best settings, from {file.name}.\n" in done.stdout
    assert len(list(tmp_path.glob("smoke/runs/*"))) == 2, "the best training is not repeated"
    assert len(list(tmp_path.glob("smoke/runs/*/result.json"))) == 1


def test_codas_hidden_ratio_is_tuned_as_in_the_paper():
    table = PAPERS["study"]["fair-trial-small"]
    sweep = read_sweep(
        "model.cascade_hidden_ratio=2,4,8", table.only("coda-slow"), Choices("small")
    )
    assert sweep == ("model.cascade_hidden_ratio", [2, 4, 8])
