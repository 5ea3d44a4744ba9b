"""Checks before the first batch.

Without them fairseq-fixed 0.12.3.1 trains from scratch if the checkpoint to start from is missing,
resumes a run as another one, and trains a complete run further.
"""

import sys
from contextlib import nullcontext

from fairseq import checkpoint_utils

from diverse_mha.common.errors import OptionError, say_interrupted
from diverse_mha.common.processes import hold
from diverse_mha.fairseq_fixes.checkpoint_options import check_readable
from diverse_mha.fairseq_fixes.replacing import in_place_of
from diverse_mha.fairseq_fixes.resuming import same_place, stop_if_done
from diverse_mha.fairseq_fixes.safe_loading import last_read
from diverse_mha.fairseq_fixes.same_run import compare_runs, say_changes
from diverse_mha.fairseq_fixes.starting_point import FINETUNE, check_metric, check_start
from diverse_mha.fairseq_fixes.time_left import say_batch, say_length


@in_place_of(checkpoint_utils, "load_checkpoint")
def check_and_load(load, cfg, trainer, **passed):
    """Check a training, then load its checkpoint.

    Fine-tuning may start without our parts (:mod:`diverse_mha.models.warm_start`).
    """
    if "fairseq_cli.hydra_train" in sys.modules:  # imports a plugin after its command line
        sys.excepthook = say_interrupted
    criterion = trainer.get_criterion()
    ours = hasattr(criterion, "check_model")
    check_metric(trainer.cfg, cfg.best_checkpoint_metric)
    check_readable(trainer.cfg)
    if trainer.is_data_parallel_master and not cfg.no_save and not hold(cfg.save_dir):
        raise OptionError(
            f"--save-dir {cfg.save_dir}: another training is at work there; wait for it to "
            "end, or name another"
        )
    # A sweep runs several trainings in one process: forget the best score and --patience's count.
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    for module in ("fairseq_cli.train", "__main__"):
        stop = getattr(sys.modules.get(module), "should_stop_early", None)
        vars(stop).clear() if stop else None
    option, path = check_start(
        cfg.save_dir,
        cfg.restore_file,
        cfg.finetune_from_model,
        getattr(cfg, "continue_once", None),
        suffix=trainer.checkpoint_suffix or "",
    )
    if ours:
        criterion.check_model(trainer.get_model())
    loading = getattr(trainer.get_model(), "loading", None)
    try:
        warm = loading(path, warm=option == FINETUNE) if loading else nullcontext()
        with warm, same_place(trainer.cfg):
            loaded = load(cfg, trainer, **passed)
    except Exception as error:
        # A changed option explains more than the error.
        compare_runs(trainer, option, path, last_read, fits=False)
        if isinstance(error, AssertionError) and "please reset the optimizer" in str(error):
            raise OptionError(f"{path}: {error}") from error
        raise
    say_changes(path, compare_runs(trainer, option, path, last_read))
    stop_if_done(trainer, path, *loaded)
    before = last_read.get("cfg") if option is None and last_read.get("path") == path else None
    say_batch(trainer.cfg, loaded[1].next_epoch_idx, before)
    say_length(trainer, loaded[1])
    return loaded
