"""Parser and output file of the evaluation commands; runs fairseq's commands, with progress."""

import argparse
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import diverse_mha
from diverse_mha.common.errors import (
    OneLineParser,
    UserError,
    add_cpu,
    add_number,
    called,
    one_line,
)
from diverse_mha.common.files import USER_DIR, check_output_file, read_json
from diverse_mha.common.outputs import add_force, check_replaceable, json_with
from diverse_mha.common.plugins import without_user_dir
from diverse_mha.common.progress import Progress, hide_log, with_progress
from diverse_mha.evaluation.equal_weights import note_equal_weights
from diverse_mha.evaluation.models import fitting
from diverse_mha.evaluation.run_folder import open_folders
from diverse_mha.evaluation.states import open_state
from diverse_mha.fairseq_fixes.patch import patched

#: Rejected fairseq options, with the reason.
_REFUSED = {
    "--gen-subset": "is set by this command; use --subset",
    "--results-path": "is set by this command; use --output",
    "--path": "is set by this command; name the checkpoint as its first argument",
    "--replace-unk": "copies words of raw text, which binarised data does not have; leave it out",
    "--quiet": "would hide the translations to score; leave it out",
    "--num-shards": "would skip part of the split; leave it out",
    "--score-reference": "scores the references themselves; use fairseq-generate",
    "--prefix-size": "would score words copied from the reference; use fairseq-generate",
    "--skip-invalid-size-inputs-valid-test": "would skip long sentences; leave it out",
}


def evaluation_parser(
    name: str, text: str, epilog: str, *, model: str, data: str, output: str
) -> OneLineParser:
    """Return a parser with checkpoint, data, ``--output``, ``--force`` and ``--cpu``.

    ``model`` and ``data`` are help texts; ``output`` is the suffix of the default result file.
    """
    parser = OneLineParser(prog=called(name), allow_abbrev=False, description=text, epilog=epilog)
    text = f"{model}; for a run's folder, its recipe sets the checkpoint and default options"
    parser.add_argument("checkpoint", help=text)
    # As a path, so that a result records the same without the slash of a completed folder name.
    parser.add_argument("data", metavar="data_bin", type=lambda name: str(Path(name)), help=data)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE.json",
        help=f"file for the scores (default: CHECKPOINT.{output}.json, which is replaced only by a "
        "result with the same settings)",
    )
    add_force(parser)
    add_cpu(parser)
    return parser


def add_samples(parser: argparse.ArgumentParser) -> None:
    """Declare ``--attention-samples``."""
    text = (
        "for a model trained with --attention-noise: average attention over N samples of the "
        "logits (default: use the mean of the logits)"
    )
    add_number(parser, "attention-samples", None, text)


@dataclass(frozen=True)
class Inputs:
    """Input files of a fairseq command, and the options passed on to it."""

    checkpoint: str  # path; several paths joined by ':' form an ensemble
    data: str
    subset: str
    cpu: bool
    extra: tuple[str, ...]  # options for the fairseq command

    @property
    def checkpoints(self) -> list[str]:
        """The paths in ``checkpoint`` as a list."""
        return self.checkpoint.split(os.pathsep)


def parse_with_fairseqs(
    parser: OneLineParser, words: Sequence[str], refused: Mapping[str, str]
) -> tuple[argparse.Namespace, Inputs]:
    """Parse a command line; return our options, and the inputs with the options for fairseq.

    A run's folder is replaced by its checkpoint. ``refused`` maps further rejected options of
    fairseq to the reason.
    """
    args, _ = parser.parse_known_args(words)
    checkpoint, all_words = open_folders(args.checkpoint, words)
    args, extra = parser.parse_known_args(all_words)
    hide_log("fairseq.data")
    for word in extra:
        name = word.partition("=")[0]
        for option, why in (_REFUSED | refused).items():
            if option.startswith(name) if name.startswith("--") else option == name[:2]:
                if word not in words:  # the user cannot leave out what the recipe has
                    why = f"{why.partition(';')[0]}; the recipe has it: name a checkpoint instead"
                raise UserError(f"{name}: {why}")
    inputs = Inputs(checkpoint, str(args.data), args.subset, args.cpu, tuple(extra))
    note_equal_weights(inputs.checkpoints, "the ensemble")
    return args, _sampled(inputs, args.attention_samples)


def _sampled(inputs: Inputs, samples: int | None) -> Inputs:
    """Add ``--attention-samples`` to fairseq's options; raise an error if a model has no noise."""
    if samples is None:
        return inputs
    option = f"--attention-samples {samples}"
    if any(word.startswith("--model-overrides") for word in inputs.extra):
        raise UserError(
            f"{option}: cannot be combined with --model-overrides; add attention_samples there"
        )
    for path in inputs.checkpoints:
        cfg = open_state(path).get("cfg") or {}
        if not (cfg.get("model") or {}).get("attention_noise"):
            raise UserError(
                f"{option}: {path} was trained without --attention-noise; leave the option out"
            )
    override = f"--model-overrides={{'model': {{'attention_samples': {samples}}}}}"
    return replace(inputs, extra=(*inputs.extra, override))


def evaluation_output(
    args: argparse.Namespace,
    checkpoints: Sequence[str],
    default: str,
    asked: Mapping[str, Any],
    key: str,
    beside: Sequence[str] = (),
) -> Path:
    """Return ``--output`` or the default file beside the first checkpoint.

    Args:
        args: our options.
        checkpoints: the checkpoints; the default name joins their names, with their folders if
            names repeat.
        default: suffix of the default name.
        asked: settings of this evaluation; a result with other settings is not replaced.
        key: a key that every result of the command has.
        beside: suffixes of the files that are written beside it.
    """
    stems = [Path(one).stem for one in checkpoints]
    if len(set(stems)) < len(stems):
        folders = (Path(one).absolute().parent.name for one in checkpoints)
        stems = [f"{folder}-{stem}" for folder, stem in zip(folders, stems, strict=True)]
    # A split's name may contain a folder.
    file = f"{'+'.join(stems)}.{default}.json".replace(os.sep, "-")
    output = args.output or Path(checkpoints[0]).with_name(file)
    check_output_file("--output", output, ".json")
    inputs = [
        *checkpoints,
        getattr(args, "raw_reference", None),
        getattr(args, "tok_reference", None),
    ]
    files = [output.with_suffix(suffix) for suffix in beside]
    for file in files:
        check_output_file("--output", file)
    check_replaceable(
        "--output", output, is_own=json_with(key), beside=files, inputs=inputs, force=args.force
    )
    if args.output is None and output.is_file() and not args.force:
        existing = read_json(output, "delete it, or give --output")
        if len(checkpoints) > 1:  # other ensembles may have the same default name
            asked = {**asked, "checkpoint": os.pathsep.join(checkpoints)}
        for name, value in asked.items():
            if _comparable(name, existing.get(name, value)) != _comparable(name, value):
                raise UserError(
                    f"{output}: is a result with {name} {existing[name]}, not {value}; give "
                    "--output FILE.json"
                )
    return output


def _comparable(name: str, value: Any) -> Any:
    """Return a setting of a result in one form, also if an older version recorded another."""
    if name.endswith("_options") and isinstance(value, list):
        return without_user_dir(value)
    if name == "checkpoint":
        return [*map(os.path.abspath, value.split(os.pathsep))]
    return str(Path(value)) if name == "data" else value


def run_fairseq(
    command: ModuleType,
    parser: argparse.ArgumentParser,
    inputs: Inputs,
    words: Sequence[str],
    sentences: int | None = None,
) -> Any:
    """Run a fairseq command in this process and return the result of its ``main``.

    Args:
        command: module of the command, such as ``fairseq_cli.generate``.
        parser: fairseq's parser for the command.
        inputs: checkpoint, data, and the user's options for fairseq.
        words: our options for fairseq.
        sentences: total of the progress bar; None: count batches instead.
    """
    import torch
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    name = f"fairseq-{command.__name__.rpartition('.')[2].replace('_', '-')}"
    words = [inputs.data, f"--path={inputs.checkpoint}", f"--gen-subset={inputs.subset}", *words]
    words += ["--user-dir", str(USER_DIR), "--num-workers", "0"]
    if inputs.cpu or not torch.cuda.is_available():
        words.append("--cpu")
    diverse_mha.register()
    # fairseq adds a handler to the root logger when it is imported.
    logging.getLogger().handlers.clear()
    parsed = options.parse_args_and_arch(one_line(parser, name), input_args=[*words, *inputs.extra])
    bars: list[_Progress] = []

    def bar(batches: Any, **_: Any) -> _Progress:
        bars.append(_Progress(batches, sentences=sentences))
        return bars[-1]

    with (
        patched(command, "progress_bar", SimpleNamespace(progress_bar=bar)),
        fitting(inputs.checkpoint, inputs.data),
    ):
        try:
            return command.main(convert_namespace_to_omegaconf(parsed))
        except (UserError, OSError):
            raise
        except Exception as error:
            # Until fairseq makes the bar, it builds the model and reads the data.
            if not inputs.extra or not bars:
                raise
            raise UserError(
                f"{name} failed with {' '.join(inputs.extra)} ({type(error).__name__}: {error}); "
                "leave these options out, or give them other values"
            ) from error


class _Progress:
    """Progress bar in place of fairseq's, which our log level hides.

    Counts up to ``sentences``, and shows the steps of beam search within a batch. If ``sentences``
    is None, counts batches.
    """

    def __init__(self, batches: Any, *, sentences: int | None = None, **_: Any):
        self._batches, self._sentences = batches, sentences

    def __iter__(self) -> Iterator:
        from fairseq.sequence_generator import EnsembleModel

        if self._sentences is None:
            yield from with_progress(self._batches, "scoring", "batches")
            return
        step = EnsembleModel.forward_decoder

        def counted(model: Any, tokens: Any, *args: Any, **kwargs: Any) -> Any:
            most = tokens.stride(0) - 1  # a view of fairseq's buffer, which has one column more
            progress.note(f"batch at token {tokens.size(1)} of at most {most}")
            return step(model, tokens, *args, **kwargs)

        with (
            Progress("translating", "sentences", self._sentences) as progress,
            patched(EnsembleModel, "forward_decoder", counted),
        ):
            for batch in self._batches:
                yield batch
                progress.advance(batch.get("nsentences", 0))

    def log(self, *_: Any, **__: Any) -> None:
        """Ignore fairseq's statistics."""
