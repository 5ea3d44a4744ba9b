"""Steps of a preparation are atomic and not repeated, and never replace another corpus."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from diverse_mha.common import files
from diverse_mha.corpora import contents
from tests.corpora.scripts import ROOT, digest, environment, loaded_hashes, refused, run

SCRIPT = """#!/usr/bin/env bash
# Two steps.

. -- "{root}/data-prep/common.sh"
option first 1 N1 "of the first"
option second 2 N1 "of the second"
option harm "" NAME "of the second"
begin "$@"
write() {{
    echo "$1" >"$tmp/file"
    ${{harm:-true}}
    echo "wrote ${{1#*=}}"
}}
step one first write --option="$first"
step two second write --option="$second"
run_steps
"""


@pytest.fixture
def script(tmp_path):
    """Function that runs a script of two steps with output ``out``."""
    (tmp_path / "data-prep").mkdir()
    path = tmp_path / "data-prep/prepare-two.sh"
    path.write_text(SCRIPT.format(root=ROOT))

    def call(*words, refuses=False):
        go = refused if refuses else run
        done = go("two", "--out", "out", *words, cwd=tmp_path, scripts=tmp_path)
        return done if refuses else done.stdout.splitlines()

    return call


def step_folders(folder):
    return sorted(path.name for path in (folder / "out").iterdir() if path.name != ".hashes")


def test_the_corpus_has_its_name_also_if_the_script_is_started_in_its_own_folder():
    command = ["bash", "prepare-demo.sh", "--help"]
    help_text = subprocess.check_output(command, cwd=ROOT / "data-prep", text=True)
    assert "folder for all output (data/demo)" in help_text and "--from" not in help_text


def test_finished_steps_are_skipped_with_a_note(script, tmp_path):
    first = ["[1/2] first: wrote 1 ", "[2/2] second: wrote 2"]  # followed by the time
    assert [line[:21] for line in script()] == first
    assert script()[1] == "[2/2] second: wrote 2 (already done)"
    assert step_folders(tmp_path) == ["one", "two"]


def test_another_finished_corpus_is_replaced_by_force_only(script, tmp_path):
    """An intermediate folder may be missing: users remove it to save space."""
    script()
    for gone in ("", "one"):
        if gone:
            for path in (tmp_path / "out/one").iterdir():
                path.unlink()
            (tmp_path / "out/one").rmdir()
        for changed, made in (("--first", "one"), ("--second", "two")):
            printed = script(changed, "9", refuses=True)
            assert printed.startswith("error: out holds a corpus prepared from other files or opt")
            assert f" (step {made}: --opt" in printed
            assert printed.endswith("; give another --out, or --force to replace it\n")
    assert "(already done)" not in "".join(script()), (
        "with unchanged options, a removed step runs again"
    )
    assert [line.endswith("(already done)") for line in script("--second=9", "--force")] == [1, 0]
    assert (tmp_path / "out/two/file").read_text() == "--option=9\n"


def test_failed_run_removes_nothing_and_leaves_no_corpus(script, tmp_path):
    printed = script("--harm", "false", refuses=True)
    assert (
        printed
        == "error: first: a program ended with exit code 1; is the memory or the disk full?\n"
    )
    assert not (tmp_path / "out").exists()
    script()
    script("--second=9", "--force", "--harm=false", refuses=True)
    assert script()[1].endswith("(already done)")
    (tmp_path / "out/two").rename(tmp_path / "elsewhere")
    assert "wrote 9" in script("--first=9")[0], "options may change if no corpus is finished"


def test_leftovers_of_a_killed_run_are_removed_and_damaged_steps_repeated(script, tmp_path):
    script()
    for name in (".two.tmp", ".one.old"):
        (tmp_path / "out" / name / "sub").mkdir(parents=True)
    for end in ("summary", "stamp"):  # a step may be killed before and after it is moved
        (tmp_path / f"out/.two.tmp.{end}").touch()
    assert "(already done)" in script()[0] and step_folders(tmp_path) == ["one", "two"]
    assert not list((tmp_path / "out").glob(".two*"))
    (tmp_path / "out/one/file").write_text("")
    assert "(already done)" not in "".join(script())


def test_changed_contents_are_noticed_whatever_size_and_time_they_have(script, tmp_path):
    script()
    file = tmp_path / "out/one/file"
    before, text = file.stat(), file.read_text()
    file.write_text(text[::-1])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    printed = script()
    assert printed[0].startswith("note: out/one/file is not as it was prepared")
    assert "(already done)" not in "".join(printed) and file.read_text() == text
    assert "".join(script()).count("(already done)") == 2


def test_a_step_is_repeated_if_it_was_made_from_other_contents(script, tmp_path):
    """As after a run that was killed before it had removed the later folders."""
    script()
    (tmp_path / "out/two").rename(tmp_path / "earlier")
    (tmp_path / "out/one").rename(tmp_path / "gone")
    path = tmp_path / "data-prep/prepare-two.sh"
    path.write_text(path.read_text().replace('echo "$1"', 'echo "another version: $1"'))
    script()
    assert "another" in (tmp_path / "out/one/file").read_text()
    for name in ("file", "stamp"):
        (tmp_path / "out/two" / name).write_text((tmp_path / "earlier" / name).read_text())
    assert [line.endswith("(already done)") for line in script()] == [1, 0]


def test_unchanged_files_are_not_read_again(tmp_path, monkeypatch, capsys):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a").write_text("text")
    words = [str(tmp_path / ".hashes"), "raw", str(tmp_path / "raw")]
    contents.main(words)
    first = capsys.readouterr().out
    monkeypatch.setattr(files, "sha256_of", None)
    contents.main(words)
    assert capsys.readouterr().out == first
    (tmp_path / "raw/a").write_text("texts")
    with pytest.raises(TypeError):
        contents.main(words)


def test_stamps_without_checksums_count_by_size(script, tmp_path):
    script()
    for name in ("one", "two"):
        stamp = tmp_path / f"out/{name}/stamp"
        kept = [x for x in stamp.read_text().splitlines(True) if x[:6] not in ("sha256", "inputs")]
        stamp.write_text("".join(kept))
    (tmp_path / "out/.hashes").unlink()
    assert "".join(script()).count("(already done)") == 2


def test_steps_of_another_corpus_are_not_reused(script, tmp_path):
    """Steps are not reused even if both corpora have the same options."""
    script()
    (tmp_path / "out/two").rename(tmp_path / "elsewhere")
    (tmp_path / "data-prep/prepare-other.sh").write_text(SCRIPT.format(root=ROOT))
    other = run("other", "--out", "out", cwd=tmp_path, scripts=tmp_path).stdout
    assert "(already done)" not in other
    printed = script(refuses=True)
    assert printed.startswith(
        "error: out holds another prepared corpus (other); give another --out"
    )
    for name in ("one", "two"):  # stamps of older versions do not name the corpus
        stamp = tmp_path / f"out/{name}/stamp"
        stamp.write_text(stamp.read_text().replace("corpus: other\n", ""))
    assert "".join(script()).count("(already done)") == 2


def test_files_of_the_user_are_never_removed(script, tmp_path):
    script()
    mine = tmp_path / "out/two/mine"
    mine.write_text("a second test set")
    assert "(already done)" in script()[1]
    printed = script("--first=9", "--force", refuses=True)
    assert "out/two/mine exists, but was not made by this command; move it away" in printed
    kept = tmp_path / "out/two.old/mine"  # where a user may move it, as the message says
    kept.parent.mkdir()
    mine.rename(kept)
    script("--first=9", "--force")
    assert kept.read_text() == "a second test set"
    script("--force")
    (tmp_path / "out/two").rename(tmp_path / "elsewhere")
    (tmp_path / "out/two").symlink_to(tmp_path / "elsewhere")
    assert "(already done)" in script()[1]
    script("--first=9", "--force")
    assert not (tmp_path / "out/two").is_symlink() and (tmp_path / "elsewhere/file").exists()


def test_input_inside_an_output_folder_is_refused(script, tmp_path):
    script()
    printed = script("--from", "out/one", refuses=True)
    assert "--from out/one: it is in out/one, which this command writes itself" in printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_terminated_run_prints_one_line_and_leaves_nothing(script, tmp_path, number):
    path = tmp_path / "data-prep/prepare-two.sh"
    command = ["bash", str(path), "--out", "out", "--harm", "sleep 60"]
    path.write_text(path.read_text().replace("${harm:-true}", "$harm && true"))
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
    )
    wait_for(tmp_path / "out/.one.tmp/file", process)
    printed = refused("two", "--out", "out", cwd=tmp_path, scripts=tmp_path)
    assert printed == "error: another run is at work in out; wait for it to end\n"
    process.send_signal(number)
    _, printed = process.communicate(timeout=20)
    assert printed == "interrupted; run the same command again to go on\n"
    assert process.returncode == 128 + number and not (tmp_path / "out").exists()


def wait_for(path: Path, process):
    deadline = time.monotonic() + 60
    while not path.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert path.exists()


@pytest.mark.parametrize(
    ("name", "files"), [("demo", ["dict.lm.txt", "dict.qo.txt"]), ("demo-text", ["dict.txt"])]
)
def test_corpus_json_identifies_the_dictionaries(name, files, tmp_path):
    hashes = []
    for seed in ("1", "2"):
        size = ["--sentences" if name == "demo-text" else "--pairs", "40"]
        run(name, *size, "--seed", seed, "--out", seed, cwd=tmp_path)
        made = json.loads((tmp_path / seed / "bin/corpus.json").read_text())
        assert made["dictionaries"] == loaded_hashes(tmp_path / seed / "bin", *files)
        hashes += {*made["dictionaries"].values()}
    assert len({*hashes}) == 2, "one joined dictionary a corpus"


def test_the_demo_corpus_keeps_its_bytes_and_repeats_only_changed_steps(tmp_path):
    """If the bytes change, raise demo.VERSION."""
    arguments = ["--pairs", "500", "--merges", "200", "--out", "my data/demo"]
    printed = run("demo", *arguments, cwd=tmp_path).stdout.splitlines()
    assert printed[-1] == "ready: fairseq-train 'my data/demo/bin'"
    assert digest(tmp_path / "my data/demo") == "09c4479adeab"
    again = run("demo", *arguments, "--workers", "1", cwd=tmp_path).stdout
    assert again.count("(already done)") == 5
    printed = refused("demo", *arguments, "--seed", "2", cwd=tmp_path)
    assert "(step raw: --version=2 --pairs=500 --seed=1)" in printed
    printed = run("demo", *arguments, "--merges=150", "--force", cwd=tmp_path).stdout.splitlines()
    assert [line.endswith("(already done)") for line in printed[:5]] == [1, 1, 1, 0, 0]
