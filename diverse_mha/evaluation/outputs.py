"""Output files: a command replaces only its own results.

Any other existing file is refused unless ``--force`` is given. A file that the command reads is
always refused.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from diverse_mha.common.errors import UserError

MADE_BY = "made_by"  # key of an output file under which a command writes its name


def add_force(parser: argparse._ActionsContainer) -> None:
    """Declare ``--force``."""
    parser.add_argument(
        "--force", action="store_true",
        help="replace existing files that this command did not write (but never an input file)",
    )  # fmt: skip


def check_replaceable(
    option: str,
    path: str | Path,
    *,
    is_own: Callable[[Path], bool],
    beside: Iterable[Path] = (),
    inputs: Iterable[str | Path | None] = (),
    force: bool = False,
) -> None:
    """Raise an error if writing ``path`` would overwrite a file that this command did not write.

    Args:
        option: the option that set the path, such as ``--output``, for messages.
        path: the file to write.
        is_own: returns True if the existing file is a result of this command.
        beside: further output files, of which nothing but ``path`` tells who wrote them: they may
            be replaced if ``path`` exists and ``is_own``.
        inputs: files that the command reads.
        force: replace files that other programs wrote.
    """
    targets = [Path(path), *beside]
    read = {Path(name).resolve() for name in inputs if name is not None}
    for target in targets:
        if target.resolve() in read:
            raise UserError(f"{option} {target}: is read by this command; give another name")
    existing = [target for target in targets if target.exists()]
    if force or not existing or (targets[0].exists() and is_own(targets[0])):
        return
    if existing[0] != targets[0]:
        raise UserError(
            f"{option} {existing[0]}: exists without {targets[0].name}, so this command may not "
            "have written it; move it, give another name, or --force"
        )
    raise UserError(
        f"{option} {existing[0]}: exists and was not written by this command; give another name, "
        "or --force"
    )


def json_with(*keys: str) -> Callable[[Path], bool]:
    """Return a predicate: True for a file with a JSON object that has all ``keys``."""

    def is_own(path: Path) -> bool:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(content, dict) and set(keys) <= content.keys()

    return is_own
