"""``--store-ema`` of tied tables.

fairseq-fixed 0.12.3.1 averages a table under each of its names. One that both embeddings and the
output projection share decays by the third power of ``--ema-decay``.
"""

from types import SimpleNamespace

from fairseq.models.ema.ema import EMA

from diverse_mha.fairseq_fixes.patch import in_place_of


@in_place_of(EMA, "_step_internal")
def each_once(step, self, new_model, updates=None):
    """Average every table once; tied ones share its memory."""
    averages = self.fp32_params if self.config.ema_fp32 else self.model.state_dict()
    kept, met = {}, set()
    for name, value in new_model.state_dict().items():
        average = averages.get(name)
        place = name if average is None else (average.data_ptr(), average.shape)
        if place not in met:
            kept[name] = value
        met.add(place)
    return step(self, SimpleNamespace(state_dict=lambda: kept), updates)
