"""Where the plugin lies, for fairseq's ``--user-dir``: ``diverse-mha path``."""

import argparse
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.places import USER_DIR


def import_plugin(folder: str) -> None:
    """Import a plugin of the user's own, as fairseq does with its ``--user-dir``.

    Raises:
        UserError: if there is no package.
    """
    if not (Path(folder) / "__init__.py").is_file():
        raise UserError(f"--user-dir {folder}: no package; give a folder with __init__.py")
    from fairseq.utils import import_user_module

    import_user_module(argparse.Namespace(user_dir=folder))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha path``: none."""
    parser.epilog = "Example: fairseq-train DATA --user-dir $(diverse-mha path) --arch ..."


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha path``."""
    print(USER_DIR)
    return 0
