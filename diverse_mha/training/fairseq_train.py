"""Runs fairseq-train for ``scripts/train.sh``, with errors in one line."""

import contextlib
import re
import sys
import time
from collections.abc import Iterator

import diverse_mha
from diverse_mha.common.errors import UserError, run_cli

WAIT_SECONDS = 5  # time for the first process to report an error that all processes raise


@contextlib.contextmanager
def first_process_reports() -> Iterator[None]:
    """Context manager: delay a user error in all processes but the first.

    The first process reports the error at once. The launcher then ends the others.
    """
    try:
        yield
    except UserError:
        rank = re.search(r"distributed[-_]rank[= ](\d+)", " ".join(sys.argv))
        if rank and int(rank[1]):
            time.sleep(WAIT_SECONDS)
        raise


def main() -> None:
    """Run fairseq-train with the arguments of the command line."""
    from fairseq_cli import train

    diverse_mha.register()
    sys.argv[0] = "fairseq-train"  # the program's name in its usage message
    with first_process_reports():
        train.cli_main()


if __name__ == "__main__":
    run_cli(main)
