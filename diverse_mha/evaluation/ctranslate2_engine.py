"""Runs CTranslate2 instead of fairseq's beam search, for ``translate`` and ``evaluate``.

CTranslate2 (``pip install ctranslate2``) runs the same model and the same search in fast C++ code.
A checkpoint is converted into a folder beside it, and again only after the checkpoint or a
dictionary has changed.
A converted model needs neither torch nor fairseq, whose import can take longer than translating.
"""

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import diverse_mha
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import atomic_folder, sha256_of, write_json
from diverse_mha.common.machine import cores
from diverse_mha.common.processes import ended_in_order
from diverse_mha.common.progress import Progress
from diverse_mha.common.vocabulary import say_unchecked
from diverse_mha.evaluation.engine import Found, Text
from diverse_mha.evaluation.outputs import MADE_BY
from diverse_mha.fairseq_fixes.startup import deferred

MADE_FILE = "engine.json"  # file in a converted folder that identifies the checkpoint
_KEYS = {"of", "positions", "languages", "checked"}  # of this file


@dataclass(frozen=True)
class Search:
    """Settings of a beam search that both engines support."""

    beam: int
    lenpen: float
    longest: int  # maximum subwords of a translation, without eos
    max_tokens: int  # source subwords in a batch


PORTION = 1000  # sentences that are translated between two updates of a progress bar


class NotConvertible(UserError):
    """Error for a model or options that CTranslate2 cannot run."""


class CTranslate2:
    """A converted model, and the settings of its search.

    Attributes:
        longest: maximum number of subwords in a source sentence, with eos.
        languages: source and target language.
    """

    def __init__(
        self, folder: Path, positions: tuple[int, int], languages: tuple[str, str], search: Search
    ):
        import ctranslate2

        self.longest, most = positions
        self.languages, self._search = languages, search
        self._most = min(search.longest, most - 1)
        threads = int(os.environ.get("OMP_NUM_THREADS") or cores())
        self._model = ctranslate2.Translator(
            str(folder), compute_type="float32", intra_threads=threads
        )

    def translate(self, text: Text, progress: Progress | None = None) -> Iterator[Found]:
        """Yield the best translation of each sentence, in order."""
        sentences = text.sentences()
        longest = max(map(len, sentences), default=0)
        if longest >= self.longest:
            raise UserError(
                f"{text}: has a sentence of {longest:,} subwords, but the model reads at most "
                f"{self.longest - 1:,}; split the sentence"
            )
        step = PORTION if progress else max(len(sentences), 1)
        for start in range(0, len(sentences), step):
            results = self._model.translate_batch(
                sentences[start : start + step],
                beam_size=self._search.beam,
                length_penalty=self._search.lenpen,
                max_batch_size=self._search.max_tokens,
                batch_type="tokens",
                max_input_length=0,
                max_decoding_length=self._most,
                return_scores=True,
            )
            for best in results:
                yield Found(best.hypotheses[0], best.scores[0])
            if progress:
                progress.advance(len(results))


def open_engine(
    engine: str, checkpoint: str, data: str | Path, *, cpu: bool, search: Search, refused: str = ""
) -> CTranslate2 | None:
    """Return the converted model as an engine, or None for fairseq's search.

    Print the choice on stderr, unless ``engine`` is ``fairseq``.

    Args:
        engine: ``auto``, ``fairseq`` or ``ctranslate2``.
        checkpoint: the model.
        data: folder with the dictionaries.
        cpu: do not use a GPU.
        search: the settings of the search.
        refused: reason against CTranslate2 that the caller has found, such as an option that
            CTranslate2 does not support; empty: none.
    """
    if engine == "fairseq":
        return None
    try:
        if why := refused or _refused(checkpoint, search):
            raise NotConvertible(why)
        if engine == "auto" and not cpu and _on_gpu():
            raise NotConvertible("there is a GPU")
        model = _converted(checkpoint, str(data))
    except NotConvertible as error:
        if engine == "ctranslate2":
            raise UserError(f"--engine ctranslate2: {error}; leave out --engine") from None
        print(f"searching by fairseq: {error}", file=sys.stderr)
        return None
    note = f"searching by CTranslate2, model {model[0]} (to use fairseq: --engine fairseq)"
    print(note, file=sys.stderr)
    return CTranslate2(*model, search)


def _refused(checkpoint: str, search: Search) -> str:
    """Return the reason why CTranslate2 cannot be used; empty: it can be used."""
    if importlib.util.find_spec("ctranslate2") is None:
        return "CTranslate2 is not installed (pip install ctranslate2)"
    if os.pathsep in checkpoint:
        return "CTranslate2 does not support ensembles"
    if search.lenpen < 0:
        return f"CTranslate2 does not support --lenpen {search.lenpen:g}"
    return ""


def _on_gpu() -> bool:
    """Return True if fairseq's search would run on a GPU."""
    import ctranslate2

    if not ctranslate2.get_cuda_device_count():
        return False
    import torch

    return torch.cuda.is_available()


def _converted(checkpoint: str, data: str) -> tuple[Path, tuple[int, int], tuple[str, str]]:
    """Return the converted model's folder, maximum positions and languages.

    Converts the checkpoint if it is new, or if it or a dictionary has changed.
    """
    folder = Path(checkpoint).with_suffix(".ctranslate2")
    of: dict[str, object] = {MADE_BY: "engine", "checkpoint_sha256": sha256_of(checkpoint)}
    of["dictionaries_sha256"] = sorted(sha256_of(path) for path in Path(data).glob("dict.*.txt"))
    made = _made(folder)
    if made is None and folder.exists():
        raise NotConvertible(f"{folder} exists and is not a converted model; move it")
    if made is None or made["of"] != of or not _KEYS <= made.keys():
        made = _convert(checkpoint, data, folder, of)
    if not made["checked"]:  # also of an earlier conversion
        say_unchecked(checkpoint, data)
    return folder, tuple(made["positions"]), tuple(made["languages"])


def _convert(checkpoint: str, data: str, folder: Path, of: dict) -> dict:
    """Convert a checkpoint, and return the content of ``MADE_FILE``."""
    diverse_mha.register()
    from diverse_mha.evaluation.models import check_data
    from diverse_mha.evaluation.states import check_translates, grouped, open_state
    from diverse_mha.models.stock_form import stock_state

    state = open_state(checkpoint)
    check_translates(checkpoint, state)
    state = grouped(checkpoint, state)
    try:
        stock = stock_state(checkpoint, state, namespace=True)
    except UserError as error:
        raise NotConvertible(str(error)) from None
    args, checked = stock["args"], check_data(checkpoint, state, data)
    name_languages(args, data)
    made = {
        "of": of,
        "positions": (args.max_source_positions, args.max_target_positions),
        "languages": (args.source_lang, args.target_lang),
        "checked": checked,  # False: the checkpoint does not record its dictionaries
    }
    try:
        with ended_in_order(), atomic_folder(folder) as model:
            convert_stock(checkpoint, stock, data, model)
            write_json(model / MADE_FILE, made)
    except OSError as error:
        raise NotConvertible(f"{folder}: cannot be written ({error.strerror})") from error
    return made


def _made(folder: Path) -> dict | None:
    try:
        content = json.loads((folder / MADE_FILE).read_text(encoding="utf-8"))
        return content if content["of"][MADE_BY] == "engine" else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def convert_stock(
    path: str, stock: dict, data: str, output: Path, quantization: str | None = None
) -> None:
    """Convert a checkpoint in stock form by ``ctranslate2.converters.FairseqConverter``.

    Args:
        path: the checkpoint, for messages.
        stock: result of :func:`diverse_mha.models.stock_form.stock_state` with ``namespace=True``;
            a translation model's names the languages.
        data: folder with the dictionaries, which have been read.
        output: folder to create; ``stock.pt`` is written beside it.
        quantization: type of the parameters; None: unchanged.
    """
    # Another converter imports transformers, which takes a second.
    with deferred(("huggingface_hub", "transformers")):
        from ctranslate2.converters import FairseqConverter

    from diverse_mha.evaluation.states import write_state

    checkpoint = output.with_name("stock.pt")
    write_state(stock, checkpoint)
    try:
        FairseqConverter(str(checkpoint), data).convert(str(output), quantization=quantization)
    except OSError:
        raise
    except Exception as error:  # an unsupported option, such as adaptive softmax
        reason = " ".join(str(error).split())[:200]
        raise NotConvertible(f"{path}: CTranslate2 cannot convert it ({reason})") from error


def name_languages(args: argparse.Namespace, data: str) -> None:
    """Infer the languages from the data if the model's options do not name them."""
    from fairseq.data.data_utils import infer_language_pair

    if not (getattr(args, "source_lang", None) and getattr(args, "target_lang", None)):
        args.source_lang, args.target_lang = infer_language_pair(data)
