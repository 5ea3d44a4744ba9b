"""The counts of the document are those of the tests."""

from pathlib import Path

from tests.security import test_archives, test_checkpoints, test_shell

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"


def test_the_document_says_how_many_there_are():
    text = DOCUMENT.read_text(encoding="utf-8")
    harmful = len(test_archives.NAMES + test_archives.LINKS + test_archives.DEVICES)
    assert f"{len(test_checkpoints.COMMANDS)} commands and the hub interface" in text
    assert f"{harmful} entries that mean harm" in text
    assert f"all {len(test_shell.LAUNCHERS)} launchers" in text
