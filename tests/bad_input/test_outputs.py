"""A command replaces only files that it wrote itself, except with --force."""

import hashlib
import json
import shlex

import pytest

from diverse_mha import cli
from tests.bad_input.harness import Row, check

pytestmark = pytest.mark.integration

THERE = "give another name, or --force"
READ = "give another name"
#: For each command, a command line in which OUT is the output.
COMMANDS = {
    "average": "average best.pt --output OUT.pt",
    "prune": "prune best.pt bin --heads 1 --cpu --output OUT.pt",
    "export": "export best.pt OUT.pt --format fairseq",
    "evaluate": "evaluate best.pt bin --cpu --output OUT.json",
    "evaluate-lm": "evaluate-lm lm.pt bin --cpu --output OUT.json",
    "evaluate-classifier": "evaluate-classifier classifier.pt pairs --cpu --output OUT.json",
    "analyze": "analyze best.pt bin --cpu --measures cka --output OUT.json",
    "analyze-folder": "analyze best.pt bin --cpu --measures cka --output OUT",
    "compare": "compare --reference a.txt --system a=a.txt --system b=b.txt --output OUT.json",
    "benchmark": "benchmark --device cpu --shape tiny --rounds 1 --output OUT.json",
}


@pytest.fixture
def foreign(world):
    """Add files that no command wrote, with names of outputs; return the current folder."""
    (world / "foreign.pt").write_bytes((world / "best.pt").read_bytes())
    (world / "foreign.json").write_text('{"source": "de"}\n')
    (world / "foreign").mkdir(exist_ok=True)
    (world / "foreign/report.html").write_text("mine")
    return world


@pytest.mark.parametrize("name", COMMANDS)
def test_files_that_the_command_did_not_write_are_not_replaced(name, foreign, monkeypatch, capsys):
    row = Row(name, COMMANDS[name].replace("OUT", "foreign"), "foreign", THERE)
    check(row, foreign, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("command", "culprit"),
    [
        ("average best.pt --output best.pt", "best.pt"),
        ("average best.pt --output best.pt --force", "best.pt"),
        ("prune best.pt bin --heads 1 --output ./best.pt --force", "best.pt"),
        ("export best.pt best.pt --format fairseq --force", "best.pt"),
        ("analyze best.pt bin --against in.json --output in.json --force", "in.json"),
        ("evaluate best.pt bin --raw-reference in.json --tok-reference a.txt --output in.json "
         "--force", "in.json"),
        ("compare --scores a=in.csv --scores b=b.csv --output in.json --force", "in.csv"),
        ("compare --reference a.txt --system a=in.json --system b=b.txt --output in.json --force",
         "in.json"),
    ],
)  # fmt: skip
def test_force_never_replaces_an_input(command, culprit, foreign, monkeypatch, capsys):
    for name in ("in.json", "in.csv", "b.csv"):
        (foreign / name).write_text("1\n2\n3\n")
    check(Row("input", command, culprit, READ), foreign, monkeypatch, capsys)


@pytest.mark.parametrize("name", ["average", "prune", "export", "analyze", "compare"])
def test_a_command_replaces_its_own_result_and_any_file_with_force(name, foreign):
    words = shlex.split(COMMANDS[name])
    output = next(word for word in words if word.startswith("OUT"))

    def run(stem, *more):
        path = foreign / output.replace("OUT", stem)
        assert cli.run([str(path) if word == output else word for word in (*words, *more)]) == 0
        return hashlib.sha256(path.read_bytes()).hexdigest()

    run(f"own-{name}")
    run(f"own-{name}")
    before = hashlib.sha256((foreign / output.replace("OUT", "foreign")).read_bytes()).hexdigest()
    assert run("foreign", "--force") != before


def test_force_without_an_output_is_refused(foreign, monkeypatch, capsys):
    for command in ("analyze best.pt bin", "compare --system a.txt --system b.txt"):
        row = Row("force", f"{command} --force", "--force", "leave it out")
        check(row, foreign, monkeypatch, capsys)


def test_an_exported_folder_is_recognised_by_its_export_json(tmp_path):
    from diverse_mha.export.export import written_folder

    assert not written_folder(tmp_path)
    (tmp_path / "export.json").write_text(json.dumps({"made_by": "export", "checkpoint": "a.pt"}))
    assert written_folder(tmp_path)
