"""The number of wrong inputs in the tables is the one that the document gives."""

from pathlib import Path

from tests.bad_input import (
    test_evaluation,
    test_preparation,
    test_scripts,
    test_tools,
    test_training,
)

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
TABLES = (test_tools, test_evaluation, test_preparation, test_training, test_scripts)


def test_the_document_says_how_many_there_are():
    commands = [row.command for table in TABLES for row in table.ROWS]
    assert len(commands) >= 60
    assert len(set(commands)) == len(commands), "one command is listed twice"
    document = DOCUMENT.read_text(encoding="utf-8")
    assert f"{len(commands)} wrong inputs" in document
    for table in TABLES:
        assert f"`{table.__name__.rpartition('.')[2]}.py` | {len(table.ROWS)} |" in document
