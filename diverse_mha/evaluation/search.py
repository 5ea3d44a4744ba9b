"""Beam search by fairseq's generator, for every command that translates with a model.

``evaluate`` and ``translate`` call it for binarised and plain text; ``diverse_mha.load`` and the
benchmarks for single batches. ``engine`` is its counterpart for CTranslate2.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from fairseq.sequence_generator import EnsembleModel
from torch import Tensor

from diverse_mha.common.progress import Progress
from diverse_mha.corpora.subwords import join_subwords
from diverse_mha.evaluation.models import Loaded
from diverse_mha.fairseq_fixes.patch import patched


class BeamSearch:
    """A search with the options of fairseq-generate.

    Args:
        loaded: the model or ensemble.
        cfg: fairseq's configuration, of which the group ``generation`` is read.
        language_model: for shallow fusion, with the option ``lm_weight``.
        fast: switch the models to fast generation, after which they cannot be trained.
    """

    def __init__(
        self,
        loaded: Loaded,
        cfg: Any,
        *,
        language_model: Any = None,
        fast: bool = True,
    ):
        self._loaded = loaded
        for model in (*loaded.models, language_model) if fast else ():
            if model is not None:
                model.prepare_for_inference_(cfg)
        fusion = {"lm_model": language_model, "lm_weight": cfg.generation.lm_weight}
        self._generator = loaded.task.build_generator(
            loaded.models, cfg.generation, extra_gen_cls_kwargs=fusion
        )

    def translate(
        self, batches: Iterable[dict], progress: Progress | None = None
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield the number and the best translation, as token ids, of each sentence.

        Args:
            batches: fairseq's batches, on the models' device.
            progress: counts sentences, and shows the steps within a batch.
        """
        task, models = self._loaded.task, self._loaded.models
        with _steps_shown(progress) if progress else nullcontext():
            for batch in batches:
                constraints = batch.get("constraints")
                found = task.inference_step(self._generator, models, batch, constraints=constraints)
                for number, (best, *_) in zip(batch["id"].tolist(), found, strict=True):
                    yield number, best["tokens"].int().cpu()
                if progress:
                    progress.advance(batch.get("nsentences", 0))

    def text(self, tokens: Tensor, post_process: str | None) -> str:
        """Return a translation in words; ``post_process`` is the kind of subwords to join."""
        end = {self._generator.eos}
        ignored = getattr(self._generator, "symbols_to_strip_from_output", end)
        words = self._loaded.task.target_dictionary
        subwords = words.string(tokens, extra_symbols_to_ignore=ignored).split(" ")
        return join_subwords(subwords, post_process)


@contextmanager
def _steps_shown(progress: Progress) -> Iterator[None]:
    """Context manager: note each step of the search, because a batch may take minutes."""
    step = EnsembleModel.forward_decoder

    def counted(model: Any, tokens: Any, *args: Any, **kwargs: Any) -> Any:
        most = tokens.stride(0) - 1  # a view of fairseq's buffer, which has one column more
        progress.note(f"batch at token {tokens.size(1)} of at most {most}")
        return step(model, tokens, *args, **kwargs)

    with patched(EnsembleModel, "forward_decoder", counted):
        yield
