"""Names of models and components, for tables, legends and files."""

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


def apart(names: list[str]) -> list[str]:
    """Number equal names: the second ``a`` is ``a-2``."""
    found: list[str] = []
    for name in names:
        own, count = name, 1
        while own.lower() in map(str.lower, found):  # some file systems know no capitals
            count += 1
            own = f"{name}-{count}"
        found.append(own)
    return found


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
                return apart(names)
    return apart(paths)


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in Path(path).resolve().with_suffix("").parts if part != "/")


def _ending(parts: tuple[str, ...], depth: int, with_file: bool) -> tuple[str, ...]:
    ending = parts[-depth - 1 :]
    return ending if with_file or len(ending) == 1 else ending[:-1]
