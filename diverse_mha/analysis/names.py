"""Names of models and components, for tables, legends and files."""

from collections.abc import Callable
from pathlib import Path

from diverse_mha.common.files import printable

COMPONENT_TITLES = {
    "encoder": "encoder self-attention",
    "cross": "encoder-decoder attention",
    "decoder": "decoder self-attention",
}


def file_name(text: str) -> str:
    """Turn a model's name into part of a file name, short enough for 255 bytes."""
    kept = "".join(c if c.isalnum() or c in "-_." else "-" for c in text)
    return kept.encode()[:180].decode(errors="ignore").strip("-.") or "model"


def apart(names: list[str], same: Callable[[str], str] = str, numbered: str = "{}-{}") -> list[str]:
    """Number names that would be one, for ``same`` is equal of them: the second ``a`` is ``a-2``.

    ``numbered`` is the form of a name with its number.
    """
    taken: dict[str, str] = {}
    for first in names:
        name, number = first, 1
        while same(name) in taken:
            number += 1
            name = numbered.format(first, number)
        taken[same(name)] = name
    return list(taken.values())


def short_names(paths: list[str]) -> list[str]:
    """Name every checkpoint by the shortest end of its path that tells it from the others.

    A file is named by its folder, because training calls every checkpoint the same:
    ``runs/baseline/checkpoint_best.pt`` is ``baseline``. Where two files are in one folder the
    file name is added. A path that is given twice gets a number.
    """
    paths = [printable(path) for path in paths]
    parts = [_parts(path) for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        for with_file in (False, True):
            names = ["/".join(_ending(p, depth, with_file)) for p in parts]
            if len(set(names)) == len(set(paths)):
                return apart(names, numbered="{} ({})")
    return apart(paths, numbered="{} ({})")


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in Path(path).resolve().with_suffix("").parts if part != "/")


def _ending(parts: tuple[str, ...], depth: int, with_file: bool) -> tuple[str, ...]:
    ending = parts[-depth - 1 :]
    return ending if with_file or len(ending) == 1 else ending[:-1]
