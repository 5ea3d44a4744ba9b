"""The counts of the document are those of the tests."""

from pathlib import Path

from tests.security import (
    test_checkpoints,
    test_expression_commands,
    test_expressions,
    test_shell,
)
from tests.security.expressions import fields

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"


def test_the_document_says_how_many_there_are():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert f"{len(test_checkpoints.COMMANDS)} commands and the hub interface" in text
    options = sum(len(fields(*target)) for target in test_expressions.TARGETS)
    assert options > 600 and len(test_expressions.TARGETS) > 30
    assert "more than 600 options of more than 30 names" in text
    assert f"{len(test_expression_commands.COMMANDS)} commands |" in text
    assert f"all {len(test_shell.LAUNCHERS)} launchers" in text
