"""Imports the user's own plugins (``--user-dir``)."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from diverse_mha.common.errors import Option, UserError


def add_user_dir(parser: argparse.ArgumentParser) -> None:
    """Declare ``--user-dir``."""
    parser.add_argument(
        "--user-dir", metavar="FOLDER", help="import this package first (docs/extending.md)"
    )


def without_user_dir(words: Iterable[str]) -> list[str]:
    """Return options without ``--user-dir`` and its value.

    A result does not record it among the settings: it is where code lies, and a model that needs no
    plugin is evaluated without.
    """
    kept, value = [], False
    for word in words:
        if not value and word != "--user-dir" and not word.startswith("--user-dir="):
            kept.append(word)
        value = not value and word == "--user-dir"
    return kept


def import_plugin(folder: str | None) -> None:
    """Import a plugin as fairseq's ``--user-dir`` does; None imports nothing."""
    if folder is None:
        return
    if not (Path(folder) / "__init__.py").is_file():
        why = ": not a package; give a folder with __init__.py"
        raise UserError(Option("user_dir", folder), why)
    from fairseq.utils import import_user_module

    try:
        import_user_module(argparse.Namespace(user_dir=folder))
    except ImportError as error:
        if "globally unique" not in str(error):
            raise
        raise UserError(
            Option("user_dir", folder), ": another package has this name; rename the folder"
        ) from error
