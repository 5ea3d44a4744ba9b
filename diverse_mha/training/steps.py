"""Steps of ``diverse-mha run``, and the record in a run's folder of those that are finished."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import FileHashes, read_json, write_json

RECORD = "steps.json"


@dataclass(frozen=True)
class Step:
    """A command of an experiment.

    Attributes:
        name: its name in the record.
        words: the command as shown.
        settings: what of it determines the result, beside the files.
        inputs: returns role -> file whose contents determine the result; called when needed,
            because earlier steps make the files.
        outputs: the files that it writes.
        carry_out: runs it; returns the exit code.
    """

    name: str
    words: Sequence[str]
    settings: Sequence[str] = ()
    inputs: Callable[[], Mapping[str, Path]] = dict
    outputs: Sequence[Path] = ()
    carry_out: Callable[[], int] = lambda: 0

    def show(self) -> None:
        """Print the command as a user would type it."""
        print(f"\n$ {shlex.join(self.words)}", flush=True)


class Record:
    """What the steps of a run have read and written, by contents.

    The folder may be moved or named differently: files are known by their role and their hash. A
    file is read again only if its size, number or times have changed.
    """

    def __init__(self, folder: Path):
        self.file = folder / RECORD
        content = read_json(self.file, "delete it") if self.file.is_file() else {}
        good = isinstance(content, dict) and all(isinstance(x, dict) for x in content.values())
        if not good:
            raise UserError(f"{self.file}: is not a record of this command; delete it")
        self.steps: dict = content.get("steps", {})
        self._hashes = FileHashes(content.get("hashes", {}))

    def of(self, step: Step) -> dict:
        """Return what a record of the step would hold now."""
        return {
            "settings": list(step.settings),
            "inputs": {role: self._hashes.of(path) for role, path in sorted(step.inputs().items())},
            "outputs": self.outputs(step),
        }

    def outputs(self, step: Step) -> dict[str, str | None]:
        """Return name -> hash of the files that a step has written; None for a missing one."""
        return {path.name: self._hashes.of(path) for path in step.outputs}

    def add(self, name: str, content: dict) -> None:
        """Record what a step has read and written."""
        self.steps[name] = content
        write_json(self.file, {"steps": self.steps, "hashes": self._hashes.known})
