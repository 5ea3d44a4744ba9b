"""Beam search over plain text: what ``diverse-mha translate`` and ``evaluate --source`` share."""

import argparse
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import diverse_mha
from diverse_mha.common.arguments import add_number, at_least, between
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.bleu import detokenise
from diverse_mha.evaluation.deploy.prepared_text import read_side
from diverse_mha.tasks.text import check_data_folder


class Translation(NamedTuple):
    """A translated line."""

    tokens: str  # subwords joined again
    text: str


def add_beam_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``--beam`` and ``--lenpen``."""
    add_number(parser, "beam", 5, "beam size")
    # Beyond that a power of the length is no float32.
    text = "length penalty, -10 to 10; over 1 favours long (1)"
    parser.add_argument("--lenpen", type=between(-10, 10), default=1.0, metavar="X", help=text)


def add_batch_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare in which portions to search, and how long translations may be."""
    parser.add_argument(
        "--max-len-a",
        type=between(0, 1000),
        default=0.0,
        metavar="A",
        help="translations have at most A times the source's length + B subwords (default: 0)",
    )
    parser.add_argument("--max-len-b", type=at_least(1), default=200, metavar="B", help="(200)")
    text = "lines read, sorted by length and translated before any is written"
    add_number(parser, "buffer", 1000, text)
    add_number(parser, "max-tokens", 4000, "source subwords in a batch, padding included")


class Translator:
    """A model, or several as an ensemble, that translates plain text.

    Args:
        checkpoint: the file; several joined by ``:``.
        data: the folder that fairseq-preprocess wrote, prepared by a script of data-prep/.
        options: those of ``add_beam_arguments`` and ``add_batch_arguments``, and ``cpu``.

    Raises:
        UserError: if checkpoint and data do not fit, or one of them cannot be used.
    """

    def __init__(self, checkpoint: str, data: str | Path, options: argparse.Namespace):
        import torch
        from fairseq import checkpoint_utils, utils
        from fairseq.dataclass.configs import FairseqConfig, GenerationConfig
        from omegaconf import OmegaConf

        from diverse_mha.evaluation.checkpoints import check_translates, fitting

        diverse_mha.register()
        logging.getLogger("fairseq").setLevel(logging.WARNING)  # it reports every step
        check_data_folder(str(data))
        paths = utils.split_paths(checkpoint)
        for path in paths:
            check_translates(path)
        with fitting(checkpoint, data):
            self.models, _, self.task = checkpoint_utils.load_model_ensemble_and_task(
                paths, arg_overrides={"data": str(data)}
            )
        self.source, self.target = (
            read_side(data, language)
            for language in (self.task.cfg.source_lang, self.task.cfg.target_lang)
        )
        self._encode, self._options = self.source.encode(), options
        self._cuda = torch.cuda.is_available() and not options.cpu
        search = GenerationConfig(
            beam=options.beam,
            lenpen=options.lenpen,
            max_len_a=options.max_len_a,
            max_len_b=options.max_len_b,
        )
        cfg = OmegaConf.structured(FairseqConfig(generation=search))
        for model in self.models:
            model.prepare_for_inference_(cfg)
            if self._cuda:
                model.cuda()
        self._generator = self.task.build_generator(self.models, cfg.generation)
        self._positions = utils.resolve_max_positions(
            self.task.max_positions(), *(model.max_positions() for model in self.models)
        )

    def translate(self, lines: Iterable[str]) -> Iterator[Translation]:
        """Translate lines of plain text, in order; an empty line gives an empty line.

        Raises:
            UserError: for a line longer than the model can read, with its number from 1.
        """
        lines, start = iter(lines), 0
        while portion := list(islice(lines, self._options.buffer)):
            yield from self._portion(portion, start)
            start += len(portion)

    def _portion(self, lines: Sequence[str], start: int) -> list[Translation]:
        encoded = [self._encode(line) for line in lines]
        places = [place for place, words in enumerate(encoded) if words.strip()]
        tokens, lengths = self.task.get_interactive_tokens_and_lengths(
            [encoded[place] for place in places], lambda line: line
        )
        limit = min(self._positions[0], self._options.max_tokens)
        for place, length in zip(places, lengths, strict=True):
            if length > limit:
                raise UserError(
                    f"line {start + place + 1}: {length:,} subwords, and at most {limit:,} are "
                    "read at once; split it (at the end of a sentence)"
                )
        found = [""] * len(lines)
        for place, words in zip(places, self._search(tokens, lengths), strict=True):
            found[place] = words
        plain = detokenise(found, self.target.moses)
        return [Translation(*pair) for pair in zip(found, plain, strict=True)]

    def _search(self, tokens: list, lengths: list[int]) -> list[str]:
        """Translate token numbers, long ones with long ones; the result is in their order."""
        from fairseq import utils
        from fairseq_cli.generate import get_symbols_to_strip_from_output

        words = [""] * len(tokens)
        if not tokens:
            return words
        batches = self.task.get_batch_iterator(
            self.task.build_dataset_for_inference(tokens, lengths),
            max_tokens=self._options.max_tokens,
            max_positions=self._positions,
        ).next_epoch_itr(shuffle=False)
        ignored = get_symbols_to_strip_from_output(self._generator)
        for batch in batches:
            sample = utils.move_to_cuda(batch) if self._cuda else batch
            hypotheses = self.task.inference_step(self._generator, self.models, sample)
            for number, best in zip(batch["id"].tolist(), hypotheses, strict=True):
                words[number] = self.task.target_dictionary.string(
                    best[0]["tokens"].int().cpu(),
                    self.target.post_process,
                    extra_symbols_to_ignore=ignored,
                )
        return words
