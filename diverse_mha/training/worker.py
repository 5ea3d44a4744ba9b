"""Trains a recipe in this process: from its checked settings to fairseq's training.

``diverse-mha train`` and ``run`` call :meth:`Training.run` if one process is enough; for several
on a CPU they start this module once for each, with the settings in a file. fairseq is imported
when a training is checked or run, not with this module.
"""

import contextlib
import json
import logging.config
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import write_text
from diverse_mha.common.status import read_status
from diverse_mha.fairseq_fixes.save_folder import removed_if_refused
from diverse_mha.recipes import machine
from diverse_mha.recipes.recipe import Recipe
from diverse_mha.training.console import logging_config
from diverse_mha.training.read_log import TRAIN_LOG

RECIPE_FILE = "recipe.yaml"  # the composed recipe, in a run's folder
WAIT_SECONDS = 5  # time for the first process to report an error that all processes raise
_RANK = "distributed_rank"


@dataclass(frozen=True)
class Training:
    """A training whose settings have been checked.

    Attributes:
        recipe: the recipe, as the run's folder will keep it.
        settings: group -> key -> value for fairseq: the result of ``configuration.check``, with
            what this machine changes (``recipes/machine.py``).
        notes: lines for the log about these changes.
    """

    recipe: Recipe
    settings: Mapping[str, Mapping[str, object]]
    notes: Sequence[str] = ()

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(str(self.recipe.get("checkpoint.save_dir")))

    @property
    def _saves(self) -> bool:
        return not self.recipe.get("checkpoint.no_save")

    def check_model(self) -> None:
        """Raise UserError for a method that does not fit the model, before data are read."""
        from diverse_mha.recipes.configuration import check_model, merge

        check_model(self.recipe, merge(self.settings))

    def run(self, distributed: Mapping[str, Any]) -> None:
        """Train, or go on with the training.

        Args:
            distributed: settings of fairseq's group ``distributed_training`` for this process.
        """
        from fairseq.distributed import utils as distributed_utils
        from omegaconf import open_dict

        from diverse_mha.recipes.configuration import errors_in_keys, merge

        rank = int(distributed.get(_RANK) or 0)
        started = {f"distributed_training.{key}": value for key, value in distributed.items()}
        cfg = merge(with_changes(self.settings, started))
        with open_dict(cfg):
            cfg.job_logging_cfg = logging_config(self.recipe)
        with first_process_reports(rank), self._new_folder(rank), errors_in_keys(cfg):
            before = read_status(self.folder)
            if rank == 0:
                self._begin(new=before is None)
            # fairseq says FairseqConfig, and always passes this.
            distributed_utils.call_main(cast("Any", cfg), train_in_process)
            after = read_status(self.folder)
            if rank == 0 and before and after and after.updates > before.updates:
                self._write_recipe()  # the resumed run has accepted it

    def _begin(self, new: bool) -> None:
        if self._saves:
            self.folder.mkdir(parents=True, exist_ok=True)
        if new:
            self._write_recipe()
        logging.config.dictConfig(logging_config(self.recipe))
        for note in self.notes:
            logging.info("%s", note)

    def _write_recipe(self) -> None:
        if self._saves:
            write_text(self.folder / RECIPE_FILE, self.recipe.to_yaml())

    def _new_folder(self, rank: int) -> AbstractContextManager:
        """Return a context manager that removes the run's folder if the training is refused."""
        if rank or not self._saves:  # without saving there is no status.json
            return nullcontext()
        return removed_if_refused(self.folder, (TRAIN_LOG, RECIPE_FILE))

    def save(self, file: Path, distributed: Mapping[str, object]) -> None:
        """Write the training and the settings of one of its processes, for :func:`main`."""
        content = {
            "path": str(self.recipe.path), "choices": dict(self.recipe.choices),
            "given": dict(self.recipe.given), "recipe": self.recipe.settings,
            "settings": self.settings, "notes": [*self.notes], "distributed": dict(distributed),
        }  # fmt: skip
        file.write_text(json.dumps(content), encoding="utf-8")


def train_in_process(cfg: Any, **passed: Any) -> None:
    """Train in a process of fairseq, whose errors torch reports as text: they name config keys."""
    from fairseq_cli import train as fairseq_train

    from diverse_mha.recipes.configuration import errors_in_keys

    with errors_in_keys(cfg):
        fairseq_train.main(cfg, **passed)


def with_changes(settings: Mapping[str, Mapping], changes: Mapping[str, object]) -> dict[str, dict]:
    """Return settings by group with changes by dotted key."""
    changed = {group: dict(values) for group, values in settings.items()}
    for name, value in changes.items():
        group, _, key = name.partition(".")
        changed.setdefault(group, {})[key] = value
    return changed


@contextlib.contextmanager
def first_process_reports(rank: int | None = None) -> Iterator[None]:
    """Context manager: delay a user error in all processes but the first.

    The first process reports the error at once. The launcher then ends the others. Without
    ``rank``, it is read from the command line.
    """
    try:
        yield
    except UserError:
        if rank is None:
            given = re.search(r"distributed[-_]rank[= ](\d+)", " ".join(sys.argv))
            rank = int(given[1]) if given else 0
        if rank:
            time.sleep(WAIT_SECONDS)
        raise


def precision_before(recipe: Recipe) -> bool | None:
    """Return True if the run to resume trains in bfloat16; None if there is none, or unknown."""
    from diverse_mha.evaluation.states import open_state, settings

    if not recipe.get(machine.BF16):
        return None
    named = recipe.get("checkpoint.restore_file")
    last = Path(str(recipe.get("checkpoint.save_dir"))) / "checkpoint_last.pt"
    path = Path(str(named)) if named else last
    if not path.is_file():
        return None
    try:
        bf16 = settings(open_state(path), "common").get("bf16")
    except UserError:
        return None  # the training will report the error
    return None if bf16 is None else bool(bf16)


def main(file: str) -> None:
    """Train in one of several processes, from the file of :meth:`Training.save`."""
    content = json.loads(Path(file).read_text(encoding="utf-8"))
    recipe = Recipe(Path(content["path"]), content["choices"], content["given"], content["recipe"])
    distributed = content["distributed"]
    with first_process_reports(int(distributed[_RANK])):
        from diverse_mha.recipes.configuration import import_parts

        import_parts(recipe)
    Training(recipe, content["settings"], content["notes"]).run(distributed)


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1]))
