"""Exponential moving average (``--store-ema``) of tied embeddings.

fairseq-fixed 0.12.3.1 averages a tied weight once for each of its names. Embeddings that encoder,
decoder and output projection share thus decay by the third power of ``--ema-decay``.
"""

from types import SimpleNamespace

from fairseq.models.ema.ema import EMA

from diverse_mha.fairseq_fixes.patch import patch


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
