"""``status.json`` in a run's folder: the progress of its training."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from diverse_mha.common.files import read_json, write_text

STATUS = "status.json"


@dataclass(frozen=True)
class Status:
    """Progress of a training.

    It is written at the start, with every checkpoint, after every epoch and at the end.

    Attributes:
        updates: number of updates.
        epochs: number of complete epochs; None if unknown.
        finished: True after the last update or epoch, and if ``--patience`` or ``--stop-min-lr``
            ended the training; False if ``--stop-time-hours`` ended it.
        diverged: True if the gradients became NaN or infinite.
        best: best validation score so far, by ``--best-checkpoint-metric``; None without one.
    """

    updates: int
    epochs: int | None
    finished: bool = False
    diverged: bool = False
    best: float | None = None

    def write(self, folder: Path) -> None:
        """Write ``status.json``, replacing the file atomically."""
        write_text(folder / STATUS, json.dumps(asdict(self), indent=2) + "\n")


def read_status(folder: Path) -> Status | None:
    """Read ``status.json``; None if the folder has none."""
    path = folder / STATUS
    if not path.is_file():
        return None
    content = read_json(path, "delete it")
    known = {f.name for f in fields(Status)}
    return Status(**{name: value for name, value in content.items() if name in known})
