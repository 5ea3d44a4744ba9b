"""Errors of the archive of the study's runs."""

from types import SimpleNamespace

import pytest

from diverse_mha.common.errors import UserError
from results.archive import RunFolder


@pytest.mark.parametrize(("float32", "options"), [(True, "hsic --no-bf16"), (False, "hsic")])
def test_missing_measures_of_heads_are_answered_with_the_command_of_that_run(
    float32, options, tmp_path
):
    """In bfloat16 the command would make another run."""
    run, table, row = SimpleNamespace(seed=3), SimpleNamespace(name="ptb"), SimpleNamespace()
    row.name = "hsic"
    one = RunFolder(run, table, row, tmp_path, {}, float32)
    command = f"study ptb --scale small --seeds 3 --rows {options} again"
    with pytest.raises(UserError, match=f"json: is missing; give .* {command}"):
        _ = one.heads
