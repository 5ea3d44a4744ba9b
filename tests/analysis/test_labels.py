"""Labels of checkpoints in tables and legends."""

import pytest

from diverse_mha.analysis.labels import file_name, short_names


@pytest.mark.parametrize(
    "paths,names",
    [
        (["runs/a/checkpoint_best.pt", "runs/b/checkpoint_best.pt"], ["a", "b"]),
        (["/x/a/last.pt", "/x/a/best.pt"], ["a/last", "a/best"]),
        (["/x/a/best.pt", "/y/a/best.pt"], ["x/a", "y/a"]),
        (["/x/a/best.pt", "/x/a/best.pt"], ["a", "a-2"]),
        (["/best.pt"], ["best"]),
        (["runs/a\x1b[31m/best.pt"], ["a\\x1b[31m"]),
    ],
)
def test_shortest_unique_suffix_is_the_name(paths, names):
    assert short_names(paths) == names


def test_file_names_are_truncated():
    assert file_name("a/b c.pt") == "a-b-c.pt" and file_name("/") == "model"
    assert file_name("\u597d" * 240) == "\u597d" * 60
