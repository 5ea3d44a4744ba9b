"""Labels: short, unique names of models and components for tables, legends and files."""

from pathlib import Path

from diverse_mha.common.errors import visible
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


def unique_names(names: list[str]) -> list[str]:
    """Return the names, with numbers where they are equal: the second ``a`` becomes ``a-2``."""
    numbered: list[str] = []
    for name in names:
        candidate, count = name, 1
        while candidate.lower() in map(str.lower, numbered):  # some file systems ignore case
            count += 1
            candidate = f"{name}-{count}"
        numbered.append(candidate)
    return numbered


def short_names(paths: list[str]) -> list[str]:
    """Return a name for each checkpoint: the shortest unique part of its path.

    A checkpoint is named by its folder, because all trainings use the same file names:
    ``runs/baseline/checkpoint_best.pt`` becomes ``baseline``. If two files are in one folder, their
    file names are added. A repeated path gets a number.
    """
    paths = [visible(printable(path)) for path in paths]
    parts = [_parts(path) for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        for with_file in (False, True):
            names = ["/".join(_ending(p, depth, with_file)) for p in parts]
            if len(set(names)) == len(set(paths)):
                return unique_names(names)
    return unique_names(paths)


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in Path(path).resolve().with_suffix("").parts if part != "/")


def _ending(parts: tuple[str, ...], depth: int, with_file: bool) -> tuple[str, ...]:
    ending = parts[-depth - 1 :]
    return ending if with_file or len(ending) == 1 else ending[:-1]
