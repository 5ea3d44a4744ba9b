"""Beam search by fairseq's generator, for every command that translates with a model.

``evaluate`` and ``translate`` give it binarised and plain text; ``diverse_mha.load`` and the
benchmarks single batches. ``ctranslate2_engine`` is the other engine.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from fairseq.sequence_generator import EnsembleModel

from diverse_mha.common.progress import Progress
from diverse_mha.evaluation.engine import Found, Text
from diverse_mha.evaluation.models import Loaded
from diverse_mha.fairseq_fixes.patch import patched

_MAX_TOKENS = 12000  # in a batch, as in fairseq-generate


class BeamSearch:
    """A search with the options of fairseq-generate.

    Args:
        loaded: the model or ensemble.
        cfg: fairseq's configuration: the group ``generation``, and for :meth:`translate` those of
            the batches, ``common`` and ``dataset``.
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
        self.loaded, self._cfg = loaded, cfg
        for model in (*loaded.models, language_model) if fast else ():
            if model is not None:
                model.prepare_for_inference_(cfg)
        fusion = {"lm_model": language_model, "lm_weight": cfg.generation.lm_weight}
        self._generator = loaded.task.build_generator(
            loaded.models, cfg.generation, extra_gen_cls_kwargs=fusion
        )

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        options = self.loaded.options
        return options.source_lang, options.target_lang

    @property
    def longest(self) -> int:
        """Maximum number of subwords in a source sentence, with eos."""
        return self.loaded.longest[0]

    def translate(self, text: Text, progress: Progress | None = None) -> Iterator[Found]:
        """Yield the best translation of each sentence, in order."""
        task, options = self.loaded.task, self._cfg.dataset
        batches = task.get_batch_iterator(
            text.dataset(task),
            max_tokens=options.max_tokens or (None if options.batch_size else _MAX_TOKENS),
            max_sentences=options.batch_size,
            max_positions=self.loaded.longest,
            seed=self._cfg.common.seed,
            num_workers=options.num_workers,
            data_buffer_size=options.data_buffer_size,
            disable_iterator_cache=True,
        ).next_epoch_itr(shuffle=False)
        filled = (self.loaded.on_device(batch) for batch in batches if "net_input" in batch)
        found = dict(self.best(filled, progress))
        for number in sorted(found):
            yield found[number]

    def best(
        self, batches: Iterable[dict], progress: Progress | None = None
    ) -> Iterator[tuple[int, Found]]:
        """Yield the number and the best translation of each sentence.

        Args:
            batches: fairseq's batches, on the models' device.
            progress: counts sentences, and shows the steps within a batch.
        """
        task, models = self.loaded.task, self.loaded.models
        end = {self._generator.eos}
        ignored = getattr(self._generator, "symbols_to_strip_from_output", end)
        with _steps_shown(progress) if progress else nullcontext():
            for batch in batches:
                constraints = batch.get("constraints")
                found = task.inference_step(self._generator, models, batch, constraints=constraints)
                for number, (best, *_) in zip(batch["id"].tolist(), found, strict=True):
                    tokens = best["tokens"].int().cpu()
                    words = task.target_dictionary.string(tokens, extra_symbols_to_ignore=ignored)
                    yield number, Found(words.split(" "), float(best["score"]), tokens)
                if progress:
                    progress.advance(batch.get("nsentences", 0))


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
