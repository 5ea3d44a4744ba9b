"""Translations by encoder-decoders of transformers, and their BLEU.

Called by ``HubAdapter``: for sentences without a given translation, and for ``prune --score bleu``.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from diverse_mha.common.errors import Option, UserError
from diverse_mha.corpora.text import rules_for
from diverse_mha.hub.texts import Example, Reader


@torch.no_grad()
def translate(model: Any, reader: Reader, examples: Sequence[Example], **search) -> list[Tensor]:
    """Return the tokens of the model's translations, which end with eos.

    Args:
        model: the model.
        reader: its reader.
        examples: sentences, which are translated as one batch.
        search: options of transformers' ``generate``; others come from the folder's generation
            config. Nothing is sampled. Without a maximum length in the config, a translation has
            at most 50 tokens more than twice the longest sentence.
    """
    source = reader.padded([one.source for one in examples], reader.pad)
    lengths = torch.tensor([[len(one.source)] for one in examples])
    real = (torch.arange(source.size(1)) < lengths).long()
    given = model.generation_config
    if given.max_length is None and given.max_new_tokens is None:
        most = min(2 * source.size(1) + 50, reader.longest - 1)
        search = {"max_new_tokens": most} | search
    if (code := reader.language_code()) is not None:
        search = {"forced_bos_token_id": code} | search
    found = model.generate(
        input_ids=source.to(model.device), attention_mask=real.to(model.device), do_sample=False,
        **search,
    )  # fmt: skip
    end, rows = model.config.eos_token_id, []
    for row in found.cpu()[:, 1:]:
        stops = (row == end).nonzero().flatten()
        rows.append(row[: int(stops[0]) + 1 if len(stops) else None])
    return rows


def scorer(tokenizer: Any) -> Any:
    """Return sacreBLEU for the tokenizer's target language, if it knows one.

    Raises:
        UserError: sacreBLEU cannot tokenise this language here.
    """
    from sacrebleu.metrics.bleu import BLEU

    named = (getattr(tokenizer, name, None) for name in ("tgt_lang", "target_lang"))
    language = rules_for(next(filter(None, named), ""))
    try:
        return BLEU(trg_lang=language)
    except (OSError, RuntimeError) as error:  # a tokeniser is not installed
        raise UserError(
            Option("score", "bleu"),
            f": sacreBLEU cannot tokenise {language} here; pip install 'sacrebleu[{language}]'",
        ) from error


def bleu(tokenizer: Any, code: int | None, rows: Iterable[Tensor], references: list[str]) -> float:
    """Return sacreBLEU of translations.

    Args:
        tokenizer: the model's tokenizer.
        code: the token with which translations begin, which is no special token of M2M100.
        rows: the tokens of each translation.
        references: the reference of each translation, as raw text.
    """
    texts = tokenizer.batch_decode(
        [[n for n in row.tolist() if n != code] for row in rows], skip_special_tokens=True
    )
    sides = ([unicodedata.normalize("NFC", x) for x in side] for side in (texts, references))
    found, expected = sides
    return scorer(tokenizer).corpus_score(found, [expected]).score
