"""Removes the new folder of a training that is refused before its first batch.

Used by `run`, by the worker and by the guard of fairseq-train. fairseq-fixed 0.12.3.1 leaves the
folder.
"""

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from diverse_mha.common.errors import user_error_in
from diverse_mha.common.locks import hold


@contextmanager
def removed_if_refused(
    folder: str | Path, files: Collection[str] = ()
) -> Iterator[Callable[[], None]]:
    """Context manager: after a user error, remove ``folder`` if its block made it.

    The folder stays if it holds more than ``files``, or if another process has locked it. Parents
    that its block made are removed, too, if they are empty.

    Yields:
        A function that does the same at once, for a refusal that raises no error here, such as the
        exit code of another process.
    """
    folder = Path(folder).absolute()
    made = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]

    def remove() -> None:
        if made and folder.is_dir() and hold(folder):
            _remove(made, files)

    try:
        yield remove
    except Exception as error:
        if user_error_in(error) is not None:
            remove()
        raise


def _remove(made: list[Path], files: Collection[str]) -> None:
    """Remove folders, the innermost first, until one cannot be removed."""
    folder = made[0]
    names = os.listdir(folder)
    if not {*names} <= {*files}:
        return
    try:
        for name in names:
            (folder / name).unlink()
        for path in made:
            path.rmdir()
    except OSError:  # another program uses a folder; the user error is what matters
        return
