"""Steps are done once, whole or not at all."""

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from diverse_mha.common import processes
from diverse_mha.common.errors import UserError
from diverse_mha.common.places import ROOT
from diverse_mha.common.processes import sole_use
from diverse_mha.corpora.steps import Steps, read_stamp


class Recorder:
    """Two steps, of which it notes those that really ran."""

    def __init__(self, out):
        self.out, self.ran = out, []

    def run(self, first=1, second=2, fail=False, force=True):
        self.ran.clear()
        options = {"one": {"option": first}, "two": {"option": (second,)}}
        steps = Steps(self.out, options, force=force)
        steps.run("first", lambda tmp: self._write(tmp, "one", first))
        steps.run("second", lambda tmp: self._write(tmp, "two", second, fail))
        return self.ran

    def _write(self, tmp, name, value, fail=False):
        self.ran.append(name)
        (tmp / "sub").mkdir()
        (tmp / "sub" / "file").write_text(f"{value}")
        if fail:
            raise KeyboardInterrupt
        return f"wrote {value}"


@pytest.fixture
def recorder(tmp_path):
    return Recorder(tmp_path / "out")


def test_finished_steps_are_skipped_and_say_so(recorder, capsys):
    assert recorder.run() == ["one", "two"]
    assert capsys.readouterr().out == "[1/2] first: wrote 1  0 s\n[2/2] second: wrote 2  0 s\n"
    assert recorder.run() == []
    assert capsys.readouterr().out.splitlines()[1] == "[2/2] second: wrote 2 (already done)"


def test_changed_options_redo_the_step_and_those_after_it(recorder):
    recorder.run()
    assert recorder.run(second=5) == ["two"]
    assert recorder.run(first=5, second=5) == ["one", "two"]
    assert (recorder.out / "two/sub/file").read_text() == "5"


@pytest.mark.parametrize("changed, folder", [("first", "one"), ("second", "two")])
@pytest.mark.parametrize("gone", ["", "one"])
def test_another_finished_corpus_is_replaced_by_force_only(recorder, changed, folder, gone):
    """Also where a folder before the last was removed to save space."""
    recorder.run()
    (recorder.out / "two/corpus.json").write_text('{"corpus": "own", "source": "de"}')
    if gone:
        (recorder.out / gone / "sub/file").unlink()
        (recorder.out / gone / "stamp.json").unlink()
    other = r"two/ has other text" if gone and changed == "first" else f"{folder}/ has other option"
    with pytest.raises(UserError) as refused:
        recorder.run(**{changed: 9}, force=False)
    assert str(refused.value) == (
        f"{recorder.out} holds another prepared corpus (own de; {other}); "
        "give another --out, or --force to replace it"
    )
    assert (recorder.out / "two/sub/file").read_text() == "2" and recorder.ran == []
    (recorder.out / "two/corpus.json").unlink()
    shutil.rmtree(recorder.out / "one")
    assert recorder.run(force=False) == ["one", "two"], "the same again is no other corpus"
    assert recorder.run(**{changed: 9}, force=True)[-1] == "two"


def test_an_unfinished_corpus_is_no_corpus_yet(recorder):
    with pytest.raises(KeyboardInterrupt):
        recorder.run(fail=True)
    assert recorder.run(first=9, force=False) == ["one", "two"]


def test_interrupted_step_leaves_nothing_that_looks_done(recorder):
    with pytest.raises(KeyboardInterrupt):
        recorder.run(fail=True)
    assert not (recorder.out / "two").exists()
    assert recorder.run() == ["two"]
    assert sorted(path.name for path in recorder.out.iterdir()) == ["one", "two"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_step_that_is_told_to_stop_leaves_nothing(tmp_path, request, number):
    before = signal.signal(number, lambda *_: pytest.fail("by the process' own handler"))
    request.addfinalizer(lambda: signal.signal(number, before))
    with pytest.raises(SystemExit) as end:
        Steps(tmp_path, {"one": {}}).run("first", lambda tmp: os.kill(os.getpid(), number))
    assert end.value.code == 128 + number
    assert not any(tmp_path.iterdir())


def test_results_of_old_options_stay_until_new_ones_are_whole(recorder):
    recorder.run()
    with pytest.raises(KeyboardInterrupt):
        recorder.run(second=9, fail=True)
    assert recorder.run() == [], "a run that fails takes nothing away"
    with pytest.raises(KeyboardInterrupt):
        recorder.run(first=9, fail=True)
    assert (recorder.out / "one/sub/file").read_text() == "9"
    assert not (recorder.out / "two").exists(), "it was made from what is gone"


def test_what_a_killed_run_leaves_is_removed(recorder):
    recorder.run()
    for name in ("two.tmp", "one.old.tmp"):
        (recorder.out / name / "sub").mkdir(parents=True)
    assert recorder.run() == []
    assert sorted(path.name for path in recorder.out.iterdir()) == ["one", "two"]


def test_a_file_of_the_users_stays_and_stops_only_what_would_delete_it(recorder):
    recorder.run()
    mine = recorder.out / "two/sub/mine"
    mine.write_text("a second test set")
    assert recorder.run() == []
    with pytest.raises(UserError, match="two/sub/mine is there, but not from this command; move"):
        recorder.run(first=9)
    assert mine.exists() and recorder.ran == []
    mine.unlink()
    assert recorder.run(first=9) == ["one", "two"]


def test_a_folder_that_was_moved_and_linked_back_is_made_again_in_its_place(recorder, tmp_path):
    recorder.run()
    (recorder.out / "two").rename(tmp_path / "elsewhere")
    (recorder.out / "two").symlink_to(tmp_path / "elsewhere")
    assert recorder.run() == []
    assert recorder.run(first=9) == ["one", "two"]
    assert sorted(path.name for path in recorder.out.iterdir()) == ["one", "two"]
    assert not (recorder.out / "two").is_symlink()
    assert (tmp_path / "elsewhere/sub/file").exists()


@pytest.mark.parametrize("left", ["one.tmp", "two.old.tmp"])
def test_a_source_that_a_killed_run_has_left_is_refused_and_not_removed(recorder, left):
    (recorder.out / left).mkdir(parents=True)
    with pytest.raises(UserError, match=f"--from .*{left}: it is in .*out/{left}, "):
        Steps(recorder.out, {"one": {}, "two": {}}, recorder.out / left)
    assert (recorder.out / left).is_dir()


def test_a_source_in_a_folder_of_the_steps_is_refused(recorder, tmp_path):
    recorder.run()
    (tmp_path / "link").symlink_to(recorder.out / "one/sub")
    with pytest.raises(UserError, match="--from .*link: it is in .*out/one, .* copy the text to"):
        Steps(recorder.out, {"one": {}, "two": {}}, tmp_path / "link")
    Steps(recorder.out, {"two": {}}, recorder.out / "one", force=True)


@pytest.mark.parametrize("harm", ["shorten", "delete", '{"key": ', "[]"])
def test_damaged_results_are_made_again(recorder, harm):
    recorder.run()
    file = recorder.out / "one/sub/file"
    if harm == "shorten":
        file.write_text("")
    elif harm == "delete":
        file.unlink()
    else:
        (recorder.out / "one/stamp.json").write_text(harm)
    assert read_stamp(recorder.out / "one") is None
    assert recorder.run() == ["one", "two"]


def test_folders_of_the_user_are_never_removed(recorder):
    (recorder.out / "one").mkdir(parents=True)
    (recorder.out / "one" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="one is there, but not from this command"):
        recorder.run()
    assert (recorder.out / "one" / "thesis.tex").exists() and recorder.ran == []


def test_two_runs_do_not_share_a_folder(tmp_path):
    with sole_use(tmp_path / "out"):
        with pytest.raises(UserError, match="another run is at work in"):
            with sole_use(tmp_path / "out"):
                pass
    with sole_use(tmp_path / "out"):
        pass


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_locks_there_is_one_warning(number, tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    monkeypatch.setattr(processes, "_warned", set())
    for _ in range(2):
        with sole_use(tmp_path / "new/out"):
            assert (tmp_path / "new/out").is_dir()
        assert not (tmp_path / "new").exists(), "what stayed empty goes"
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"warning: {tmp_path}/new/out: no locks") and "no second run" in said
    number = errno.EIO  # which is no lack of locks
    with pytest.raises(OSError, match=os.strerror(number)), sole_use(tmp_path):
        pass


def test_what_a_killed_run_leaves_at_work_keeps_its_folder(tmp_path):
    """As fairseq-preprocess does, which goes on writing when ``prepare`` gets SIGKILL."""
    said, python, out = tmp_path / "pid", tmp_path / "python", tmp_path / "out"
    python.write_text(f"#!/bin/sh\necho $$ > {said}.tmp; mv {said}.tmp {said}; exec sleep 60\n")
    python.chmod(0o755)
    code = (
        "import sys; from pathlib import Path; from diverse_mha.common.processes import sole_use; "
        f"from diverse_mha.corpora.binarise import preprocess; sys.executable = {str(python)!r}\n"
        f"with sole_use(Path({str(out)!r})): preprocess({{}}, Path('bin'), 1, [])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.Popen([sys.executable, "-c", code], env=environment)
    deadline = time.monotonic() + 600
    while not said.exists() and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    run.kill()
    run.wait()
    left = int(said.read_text())
    try:
        with pytest.raises(UserError, match="another run is at work in"), sole_use(out):
            pass
    finally:
        os.kill(left, signal.SIGKILL)
