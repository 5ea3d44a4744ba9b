"""The ``diverse-mha`` command and its doctor."""

import argparse
import contextlib
import importlib.metadata
import re
import subprocess
import sys

import pytest

from diverse_mha import cli, doctor, options
from diverse_mha.common.errors import UserError


def test_every_command_has_help(capsys):
    assert len(cli.COMMANDS) >= 3
    for name in cli.COMMANDS:
        try:
            code = cli.run([name, "--help"])
        except SystemExit as end:
            code = end.code
        assert code == 0
        shown = capsys.readouterr().out
        assert re.match(rf"usage: diverse-mha {name}\b", shown), shown
        assert re.search(rf"\nexamples?:\n  (fairseq-train|diverse-mha {name})\b", shown), shown


@pytest.mark.parametrize("command", ["evaluate", "train"])
def test_help_shows_the_command_as_typed(command, monkeypatch, capsys):
    # scripts/env.sh sets the variable. A command may also inherit it from another script, such as
    # run.sh, whose user types scripts.
    for script in (f"{command}.sh", "benchmark.sh", ""):
        monkeypatch.setenv("DIVERSE_MHA_SCRIPT", script)
        with contextlib.suppress(SystemExit):
            cli.run([command, "--help"])
        shown = f"scripts/{command}.sh" if script else f"diverse-mha {command}"
        assert capsys.readouterr().out.startswith(f"usage: {shown} [")


def test_error_for_an_unknown_command_lists_all_commands():
    with pytest.raises(UserError, match="invalid choice: 'analyse' .*'doctor'"):
        cli.run(["analyse"])


def test_error_for_an_unknown_option_refers_to_the_help(monkeypatch):
    monkeypatch.setenv("DIVERSE_MHA_SCRIPT", "benchmark.sh")
    with pytest.raises(UserError, match="--paris 200; see scripts/benchmark.sh --help"):
        cli.run(["benchmark", "--paris", "200"])


@pytest.mark.integration
def test_fairseq_does_not_warn_of_missing_tensorboardx():
    # Set-up installs tensorboardX for the tests, but a wheel does not require it.
    code = (
        "import sys; sys.modules['tensorboardX'] = None; import diverse_mha.fairseq_fixes.install"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_path_prints_a_valid_user_dir(capsys):
    assert cli.run(["path"]) == 0
    folder = capsys.readouterr().out.strip()
    assert folder.endswith("/diverse_mha")
    assert cli.__file__.startswith(folder)


def test_doctor_finds_no_fault_in_this_environment(capsys):
    assert cli.run(["doctor"]) == 0
    report = capsys.readouterr().out
    assert re.search(
        rf"^ok +numpy +{importlib.metadata.version('numpy')} \(arrays\)$", report, re.M
    )
    assert re.search("^ok +architectures .*transformer_disagree,", report, re.M)


def test_doctor_reports_a_broken_fairseq_and_continues(monkeypatch, capsys):
    # None in sys.modules makes the import fail.
    for name in ("fairseq", "fairseq.models"):
        monkeypatch.setitem(sys.modules, name, None)
    assert doctor.run(argparse.Namespace()) == 1
    lines = capsys.readouterr().out.splitlines()
    status = {line[8:].split()[0]: line.split()[0] for line in lines if line and line[0] != " "}
    assert status["fairseq"] == "FAILED"
    assert status["architectures"] == "FAILED"
    assert status["torch"] == status["numpy"] == "ok"
    assert "fairseq, " in lines[-1] and "architectures" in lines[-1]


def test_options_lists_all_names_and_the_options_of_a_given_name(capsys):
    assert cli.run(["options"]) == 0
    names = capsys.readouterr().out.replace(",", " ").split()
    known = options.components()
    assert {"transformer_coda_tiny", "exact_translation"} < set(known) <= set(names)

    assert cli.run(["options", "transformer_coda"]) == 0
    own = capsys.readouterr().out
    assert "--logits  (default: mlp)" in own and "--encoder-layers " not in own
    assert cli.run(["options", "cross_entropy_with_diversity"]) == 0
    criterion = capsys.readouterr().out
    assert "--hsic-weight  (default: 0.0)" in criterion and "--token-loss" in criterion


def test_error_for_an_unknown_name_lists_the_nearest_names():
    with pytest.raises(
        UserError, match="transformer_codas: not a model, .* transformer_coda,"
    ) as bad:
        cli.run(["options", "transformer_codas"])
    assert "\n" not in str(bad.value)


def test_commands_that_need_a_clone_are_refused_without_one(monkeypatch, tmp_path):
    monkeypatch.setattr(cli, "ROOT", tmp_path)
    with pytest.raises(UserError, match="not a clone of diverse-mha, which this command needs"):
        cli.run(["reproduce", "--list"])


def test_doctor_fails_if_recipes_do_not_compose(monkeypatch):
    def fail(*_):
        raise ValueError("str is not a TupleConfig")  # the error with omegaconf 2.4.0

    assert doctor._recipe() == "composes"
    monkeypatch.setattr("diverse_mha.recipes.configuration.add_defaults", fail)
    with pytest.raises(ValueError, match="TupleConfig"):
        doctor._recipe()


@pytest.mark.parametrize("command", [name for name, one in cli.COMMANDS.items() if one.reads])
def test_a_mistyped_file_is_reported_before_torch_is_imported(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_import", lambda command: pytest.fail("imports the command"))
    (tmp_path / "there.pt").touch()
    with pytest.raises(UserError, match="^gone.pt: no such checkpoint; check the folder"):
        cli.run([command, "gone.pt", "data"])
    if cli.COMMANDS[command].reads > 1:
        with pytest.raises(UserError, match="^gone: no such data folder"):
            cli.run([command, "there.pt", "gone"])


def test_commands_and_their_modules_have_the_same_names():
    for name, command in cli.COMMANDS.items():
        assert command.module.rpartition(".")[2] == name.replace("-", "_")
