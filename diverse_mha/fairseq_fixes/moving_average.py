"""Exponential moving average (``--store-ema``): tied embeddings, and checkpoints without one.

fairseq-fixed 0.12.3.1 averages a tied weight once for each of its names. Embeddings that encoder,
decoder and output projection share thus decay by the third power of ``--ema-decay``. It cannot load
a checkpoint without an average (``KeyError: 'model'``), because it reads weights that it has
deleted.
"""

import logging
from types import SimpleNamespace

from fairseq import checkpoint_utils
from fairseq.models.ema.ema import EMA
from fairseq.trainer import Trainer

from diverse_mha.fairseq_fixes.patch import patch, patched

logger = logging.getLogger(__name__)


@patch(EMA, "_step_internal")
def average_tied_weights_once(original, self, new_model, updates=None):
    """Average each weight once; tied weights share storage."""
    averages = self.fp32_params if self.config.ema_fp32 else self.model.state_dict()
    weights, seen = {}, set()
    for name, value in new_model.state_dict().items():
        average = averages.get(name)
        storage = name if average is None else (average.data_ptr(), average.shape)
        if storage not in seen:
            weights[name] = value
        seen.add(storage)
    return original(self, SimpleNamespace(state_dict=lambda: weights), updates)


@patch(Trainer, "load_checkpoint")
def start_from_loaded_weights(load, self, *args, **kwargs):
    """Load a checkpoint; the average that it lacks starts from its weights."""
    read = checkpoint_utils.load_checkpoint_to_cpu

    def completed(path, *args, **kwargs) -> dict:
        state = read(path, *args, **kwargs)
        if self.cfg.ema.store_ema and "ema" not in state["extra_state"]:
            logger.info("%s: holds no moving average, which starts from its weights", path)
            state["extra_state"]["ema"] = dict(state["model"])
        return state

    with patched(checkpoint_utils, "load_checkpoint_to_cpu", completed):
        return load(self, *args, **kwargs)
