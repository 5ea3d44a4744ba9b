"""Runs fairseq-train for ``diverse-mha train DATA``, with errors in one line."""

import sys

import diverse_mha
from diverse_mha.common.errors import run_cli
from diverse_mha.training.worker import first_process_reports


def main() -> None:
    """Run fairseq-train with the arguments of the command line."""
    from fairseq_cli import train

    diverse_mha.register()
    sys.argv[0] = "fairseq-train"  # the program's name in its usage message
    with first_process_reports():
        train.cli_main()


if __name__ == "__main__":
    run_cli(main)
