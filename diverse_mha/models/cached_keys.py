"""Keys and values kept between the steps of decoding, stored once for the beams of a sentence."""

from typing import Any

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor

from diverse_mha.attention.core import rows_per_key


class CachedKeys(MultiheadAttention):
    """Mixin: cached keys of an attention module in decoding; list it before fairseq's class.

    The beams of a sentence attend to the same source. After ``set_beam_size``, which fairseq's
    generator calls, equal keys of beams are stored once. Equality is checked, so a beam size that
    an earlier search has left is harmless.
    """

    def project_keys(
        self, key: Tensor, first_values: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return keys and values (B, H, S, D) of (B, S, Ck), and values for the next layer."""
        raise NotImplementedError

    def cached_keys(
        self,
        query: Tensor,
        key: Tensor | None,
        key_padding_mask: Tensor | None,
        incremental_state: dict,
        static_kv: bool,
        first_values: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Take the keys of the decoding state, append the keys of this step, and store the result.

        The arguments are those of ``DiverseAttention``.

        Returns:
            Keys and values (B / fold, H, S, D), with fold the number of beams that share a row; the
            padding mask of the keys (B / fold, S) or None; and the values of this step for the
            next layer, or None.
        """
        cache: dict[str, Any] = self._get_input_buffer(incremental_state)
        k, v, carried = cache.get("prev_key"), cache.get("prev_value"), None
        if k is None or v is None or not static_kv:
            key = query if self.self_attention or key is None else key
            if self.encoder_decoder_attention and self.beam_size > 1:
                key, key_padding_mask = self._one_per_sentence(query, key, key_padding_mask)
            new_k, new_v, carried = self.project_keys(key, first_values)
            cache["fold"] = rows_per_key(query, new_k)
            k = new_k if k is None else torch.cat([k, new_k], dim=2)
            v = new_v if v is None else torch.cat([v, new_v], dim=2)
        mask = self._append_prev_key_padding_mask(
            key_padding_mask, cache.get("prev_key_padding_mask"), k.size(0), k.size(2), static_kv
        )
        cache.update(prev_key=k, prev_value=v, prev_key_padding_mask=mask)
        self._set_input_buffer(incremental_state, cache)
        return k, v, mask, carried

    def _one_per_sentence(
        self, query: Tensor, key: Tensor, key_padding_mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Drop the copies that beam search made of each sentence's keys."""
        if key.size(0) != query.size(0) or key.size(0) % self.beam_size:
            return key, key_padding_mask
        for x in (key, key_padding_mask):
            if x is not None:
                beams = x.unflatten(0, (-1, self.beam_size))
                if not bool((beams == beams[:, :1]).all()):
                    return key, key_padding_mask
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask[:: self.beam_size]
        return key[:: self.beam_size], key_padding_mask

    def reorder_incremental_state(
        self, incremental_state: dict | None, new_order: Tensor, plans: dict | None = None
    ) -> dict | None:
        """Set row i of the decoding state to row ``new_order[i]``; ``new_order`` is (B',).

        Keys stay shared while their rows stay together, as in fairseq's search. ``plans`` caches
        the rows to keep, for other modules with the same order.
        """
        cache: dict[str, Any] = self._get_input_buffer(incremental_state)
        if incremental_state is None or cache.get("prev_key") is None:
            return incremental_state
        # A cache that was set through fairseq's _set_input_buffer has no "fold".
        shape = cache.get("fold", 1), cache["prev_key"].size(0)
        plans = {} if plans is None else plans
        if shape not in plans:
            plans[shape] = _plan(new_order, *shape)
        source, cache["fold"] = plans[shape]
        if source is None:
            return incremental_state
        for name in ("prev_key", "prev_value", "prev_key_padding_mask"):
            if cache.get(name) is not None:
                cache[name] = cache[name].index_select(0, source)
        self._set_input_buffer(incremental_state, cache)
        return incremental_state


def _plan(new_order: Tensor, fold: int, rows: int) -> tuple[Tensor | None, int]:
    """Return the stored rows to keep (None: all), and how many queries then share a row."""
    source = new_order // fold  # index of the stored keys that each row needs, (B',)
    if fold > 1:
        together = len(source) % fold == 0 and torch.equal(
            source, source[::fold].repeat_interleave(fold)
        )
        if not together:
            return source, 1
        source = source[::fold]
    same = torch.equal(source, torch.arange(rows, device=source.device))
    return (None if same else source), fold
