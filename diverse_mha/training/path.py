"""Prints the plugin's folder, for fairseq's ``--user-dir``: ``diverse-mha path``."""

import argparse

from diverse_mha.common.files import USER_DIR


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha path``: none."""
    parser.epilog = "example:\n  fairseq-train DATA --user-dir $(diverse-mha path) --arch ..."


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha path``."""
    print(USER_DIR)
    return 0
