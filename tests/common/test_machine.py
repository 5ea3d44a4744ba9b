"""What the machine is said to be."""

import subprocess

import pytest

from diverse_mha.common import machine
from diverse_mha.common.machine import computes_in_bfloat16


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("model name : X\nflags : fpu avx512f avx512_bf16 amx_tile\n", True),
        ("flags\t\t: fpu amx_bf16\n", True),
        ("Features : fp asimd bf16 i8mm\n", True),
        ("flags : fpu avx2 avx512f\n", False),
        ("model name : of a machine without a list\n", None),
    ],
)
def test_arithmetic_for_bfloat16(tmp_path, text, answer):
    (tmp_path / "cpuinfo").write_text(text)
    assert computes_in_bfloat16(tmp_path / "cpuinfo") is answer


def test_nothing_is_claimed_where_there_is_no_list(tmp_path):
    assert computes_in_bfloat16(tmp_path / "none") is None


def test_a_commit_is_named_by_its_hash_where_it_has_a_tag(tmp_path, monkeypatch):
    def git(*words):
        who = ["-c", "user.name=N", "-c", "user.email=e"]
        return subprocess.check_output(["git", "-C", str(tmp_path), *who, *words], text=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "First")
    git("tag", "-a", "v1", "-m", "v1")
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    assert machine.versions()["git_commit"] == git("rev-parse", "HEAD").strip()
