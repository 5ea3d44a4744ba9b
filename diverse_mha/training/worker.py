"""Trains a recipe in this process: from the composed recipe to fairseq's training.

``diverse-mha train`` and ``run`` call :func:`train` for one process. For several on a CPU they
start this module once for each, with the composed recipe in a file.
"""

import contextlib
import json
import logging.config
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli, user_error_in
from diverse_mha.common.files import write_text
from diverse_mha.common.options import as_keys
from diverse_mha.common.status import read_status
from diverse_mha.fairseq_fixes.save_folder import removed_if_refused
from diverse_mha.recipes import machine
from diverse_mha.recipes.recipe import Recipe, parse_overrides
from diverse_mha.training.console import logging_config
from diverse_mha.training.read_log import TRAIN_LOG

RECIPE_FILE = "recipe.yaml"  # the composed recipe, in a run's folder
WAIT_SECONDS = 5  # time for the first process to report an error that all processes raise
_RANK = "distributed_rank"


class Training:
    """A training that has been checked; :meth:`run` carries it out.

    Args:
        recipe: the recipe, as the run's folder will keep it.
        distributed: settings of fairseq's group ``distributed_training`` for this process.
        changes: what this machine changes in the recipe (``recipes/machine.py``).
        notes: lines for the log about these changes.

    Raises:
        UserError: for a recipe that cannot be trained.
    """

    def __init__(
        self,
        recipe: Recipe,
        distributed: Mapping[str, object],
        changes: Mapping[str, object],
        notes: Sequence[str],
    ):
        from diverse_mha.recipes.configuration import configure

        started = {f"distributed_training.{key}": value for key, value in distributed.items()}
        self.recipe, self.notes = recipe, notes
        self.rank = int(distributed.get(_RANK) or 0)
        self.cfg = configure(recipe.changed({**changes, **started}))

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.cfg.checkpoint.save_dir)

    def run(self) -> None:
        """Train, or go on with the training."""
        from fairseq.distributed import utils as distributed_utils
        from fairseq_cli import train as fairseq_train
        from omegaconf import open_dict

        from diverse_mha.recipes.configuration import keys_of_options

        with open_dict(self.cfg):
            self.cfg.job_logging_cfg = logging_config(self.recipe)
        try:
            with first_process_reports(self.rank), self._new_folder():
                before = read_status(self.folder)
                if self.rank == 0:
                    self._begin(new=before is None)
                distributed_utils.call_main(self.cfg, fairseq_train.main)
                after = read_status(self.folder)
                if self.rank == 0 and before and after and after.updates > before.updates:
                    self._write_recipe()  # the resumed run has accepted it
        except Exception as error:
            refused = user_error_in(error)
            if refused is None:
                raise
            raise UserError(as_keys(str(refused), keys_of_options(self.cfg))) from None

    def _begin(self, new: bool) -> None:
        if not self.cfg.checkpoint.no_save:
            self.folder.mkdir(parents=True, exist_ok=True)
        if new:
            self._write_recipe()
        logging.config.dictConfig(logging_config(self.recipe))
        for note in self.notes:
            logging.info("%s", note)

    def _write_recipe(self) -> None:
        if not self.cfg.checkpoint.no_save:
            write_text(self.folder / RECIPE_FILE, self.recipe.to_yaml())

    def _new_folder(self) -> AbstractContextManager:
        """Return a context manager that removes the run's folder if the training is refused."""
        if self.rank or self.cfg.checkpoint.no_save:  # no_save writes no status.json
            return nullcontext()
        return removed_if_refused(self.folder, (TRAIN_LOG, RECIPE_FILE))


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


def save_job(
    file: Path, recipe: Recipe, changes: Mapping[str, object], notes: Sequence[str]
) -> None:
    """Write what all processes of a training share, for :func:`main`."""
    shared = {
        "path": str(recipe.path), "choices": dict(recipe.choices), "given": dict(recipe.given),
        "settings": recipe.resolved, "changes": dict(changes), "notes": list(notes),
    }  # fmt: skip
    file.write_text(json.dumps(shared), encoding="utf-8")


def main(words: Sequence[str]) -> None:
    """Train in one of several processes: the file of :func:`save_job`, then ``key=value``."""
    file, *settings = words
    shared = json.loads(Path(file).read_text(encoding="utf-8"))
    recipe = Recipe(Path(shared["path"]), shared["choices"], shared["given"], shared["settings"])
    _, distributed = parse_overrides(settings)
    distributed = {key.removesuffix("._name"): value for key, value in distributed.items()}
    with first_process_reports(int(distributed[_RANK])):
        training = Training(recipe, distributed, shared["changes"], shared["notes"])
    training.run()


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
