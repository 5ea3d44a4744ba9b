"""No table of wrong inputs is forgotten, and no input is in two."""

from pathlib import Path

from tests.bad_input import (
    test_evaluation,
    test_preparation,
    test_scripts,
    test_tools,
    test_training,
)

TABLES = (test_tools, test_evaluation, test_preparation, test_training, test_scripts)


def test_every_table_is_here_and_every_command_once():
    files = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert files - {Path(__file__).stem} == {table.__name__.rpartition(".")[2] for table in TABLES}
    commands = [row.command for table in TABLES for row in table.ROWS]
    assert len(commands) > 250, "as docs/reliability.md says"
    assert len(set(commands)) == len(commands), "one command is listed twice"
