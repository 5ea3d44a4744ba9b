"""Folders of transformers that ``prune`` writes: heads are zero, or their parameters are gone.

Called by ``HubAdapter``. A config of transformers has one number of heads for all layers, so
``prune --remove`` takes as many heads from every layer, and heads that share keys and values go
together. This needs a config in which the size of a head is a field of its own, as in those of
Llama, Mistral and Qwen.
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor, nn

from diverse_mha.attention.sites import Head, HeadNumbers, Site

RECORD = "pruned_heads.json"  # written beside a pruned model
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")


class Record:
    """Which heads ``prune`` has pruned in a folder, by their numbers before.

    Attributes:
        pruned: names of the pruned heads, such as ``decoder 1.3``.
        kept: module, such as ``decoder 1`` -> numbers of the heads that were not removed.
        total: number of heads of these modules before the first removal.
    """

    def __init__(self, folder: str | Path):
        path = Path(folder, RECORD)
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        self.pruned: list[str] = content.get("pruned_heads", [])
        self.kept: dict[str, list[int]] = content.get("kept_heads", {})
        self.total: int = content.get("all_heads", 0)

    def numbers(self, component: str, layer: int, count: int) -> HeadNumbers:
        """Return the numbers of the ``count`` heads that a module has."""
        kept = tuple(self.kept.get(f"{component} {layer}", ()))
        return HeadNumbers(kept, self.total) if len(kept) == count else HeadNumbers.unpruned(count)

    def write(self, folder: str | Path, sites: Sequence[Site], heads: list[Head]) -> None:
        """Write the record of a folder with further pruned heads; ``sites`` are what is left."""
        now = [text for text in map(str, heads) if text not in self.pruned]
        content = {"made_by": "prune", "pruned_heads": [*self.pruned, *now]}
        if any(site.numbers.pruned for site in sites):
            kept = {f"{site.component} {site.number}": site.numbers.kept for site in sites}
            content |= {"kept_heads": kept, "all_heads": sites[0].numbers.total}
        Path(folder, RECORD).write_text(json.dumps(content, indent=1), encoding="utf-8")


class Removal:
    """What ``prune --remove`` can take out of a model.

    Args:
        model: the model.
        modules: its attention modules.
        heads: the number of heads of each module.

    Attributes:
        group: number of neighbouring heads that share keys and values.
        counts: numbers of heads that each layer can lose; empty if heads cannot be removed.
    """

    def __init__(self, model: Any, modules: Sequence[Any], heads: Sequence[int]):
        self._model, self._modules = model, modules
        self.total = heads[0]
        groups = getattr(model.config, "num_key_value_heads", None) or self.total
        self.group = self.total // groups
        self.counts: list[int] = []
        if {*heads} == {getattr(model.config, "num_attention_heads", None)} and self._is_plain():
            possible = range(self.group, self.total, self.group)
            counts = [n for n in possible if self.config(self.total - n) is not None]
            self.counts = counts if counts and self._fits(self.total - counts[0]) else []

    def _is_plain(self) -> bool:
        """Return True if the projections of all modules have a part of equal size for each head."""
        for module in self._modules:
            found = [getattr(module, name, None) for name in _PROJECTIONS]
            weights = [part.weight for part in found if isinstance(part, nn.Linear)]
            if len(weights) < len(found):
                return False
            query, key, value, output = weights
            size = len(query) // self.total
            widths = len(query), len(key) * self.group, len(value) * self.group, output.size(1)
            if {*widths} != {self.total * size}:
                return False
        return True

    def config(self, heads: int) -> Any | None:
        """Return a config with ``heads`` heads of the same size; None if the config refuses it."""
        small = copy.deepcopy(self._model.config)
        small.head_dim = len(self._modules[0].q_proj.weight) // self.total
        small.num_attention_heads = heads
        if getattr(small, "num_key_value_heads", None):
            small.num_key_value_heads = heads // self.group
        try:
            type(small).from_dict(small.to_dict())
        except (StrictDataclassError, ValueError):
            return None
        return small

    def _fits(self, heads: int) -> bool:
        """Return True if the model of a smaller config has the parameters that are left."""
        with torch.device("meta"):
            small = type(self._model)(self.config(heads))
        kept = {module: range(heads) for module in self._modules}
        left, made = self._state(kept, meta=True), small.state_dict()
        return {k: x.shape for k, x in left.items()} == {k: x.shape for k, x in made.items()}

    def _parts(self, module: nn.Module) -> Iterator[tuple[str, str, int]]:
        """Yield projection, parameter and axis of what a module has for each head."""
        (name,) = (name for name, other in self._model.named_modules() if other is module)
        for part in _PROJECTIONS:
            yield part, f"{name}.{part}.weight", int(part == "o_proj")
            if part != "o_proj":
                yield part, f"{name}.{part}.bias", 0

    def _state(self, kept: Mapping[Any, Sequence[int]], *, meta: bool = False) -> dict[str, Tensor]:
        """Return the parameters without some heads.

        Args:
            kept: module -> places of the heads that are left, from 0.
            meta: return shapes only, as tensors on torch's meta device.
        """
        state = self._model.state_dict()
        state = {name: x.to("meta") if meta else x for name, x in state.items()}
        for module, places in kept.items():
            size = len(module.q_proj.weight) // self.total
            for part, name, axis in self._parts(module):
                if name not in state:
                    continue
                shared = part in ("k_proj", "v_proj")
                own = [n // self.group for n in places[:: self.group]] if shared else [*places]
                whole = state[name].unflatten(axis, (-1, size))
                chosen = whole.index_select(axis, torch.tensor(own, device=whole.device))
                state[name] = chosen.flatten(axis, axis + 1)
        return state

    def save(self, kept: Mapping[Any, Sequence[int]], folder: str | Path) -> None:
        """Write the smaller model; ``kept`` are the places of the heads that are left, from 0."""
        whole = self._model.config
        self._model.config = self.config(len(next(iter(kept.values()))))
        try:
            self._model.save_pretrained(folder, state_dict=self._state(kept))
        finally:
            self._model.config = whole
