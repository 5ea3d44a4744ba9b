"""Writing result files whole or not at all."""

import json
import os
from pathlib import Path


def write_json(path: Path, content: dict) -> None:
    """Write ``content`` as indented JSON; a file of that name is replaced in one step."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8; a file of that name is replaced in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
