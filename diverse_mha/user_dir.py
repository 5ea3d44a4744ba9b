"""Where the plugin lies, for fairseq's ``--user-dir``: ``diverse-mha path``."""

import argparse
from pathlib import Path

USER_DIR = Path(__file__).resolve().parent


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha path``: none."""
    parser.epilog = "Example: fairseq-train DATA --user-dir $(diverse-mha path) --arch ..."


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha path``."""
    print(USER_DIR)
    return 0
