"""Command lines of the evaluations: parser, options that go to fairseq, and the output file."""

import argparse
import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

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
from diverse_mha.common.progress import hide_log
from diverse_mha.evaluation.equal_weights import note_equal_weights
from diverse_mha.evaluation.outputs import add_force, check_replaceable, json_with
from diverse_mha.evaluation.run_folder import open_folders
from diverse_mha.evaluation.states import open_state

#: Rejected fairseq options, with the reason.
_REFUSED = {
    "--gen-subset": "is set by this command; use --subset",
    "--results-path": "is set by this command; use --output",
    "--path": "is set by this command; name the checkpoint as its first argument",
    "--replace-unk": "copies words of raw text, which binarised data does not have; leave it out",
    "--quiet": "has no effect here; leave it out",
    "--num-shards": "would skip part of the split; leave it out",
    "--score-reference": "scores the references themselves; use fairseq-generate",
    "--prefix-size": "would score words copied from the reference; use fairseq-generate",
    "--skip-invalid-size-inputs-valid-test": "would skip long sentences; leave it out",
    "--print-step": "has no effect here; use fairseq-generate",
    "--retain-iter-history": "has no effect here; use fairseq-generate",
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


def add_samples(parser: argparse._ActionsContainer) -> None:
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
    #: Path -> content of a checkpoint, which is opened once.
    states: dict[str, dict] = field(default_factory=dict, compare=False, repr=False)

    @property
    def checkpoints(self) -> list[str]:
        """The paths in ``checkpoint`` as a list."""
        return self.checkpoint.split(os.pathsep)

    def state(self, path: str) -> dict:
        """Return the content of a checkpoint, whose parameters are read when they are used."""
        if path not in self.states:
            self.states[path] = open_state(path)
        return self.states[path]


def parse_with_fairseqs(
    parser: argparse.ArgumentParser, words: Sequence[str], refused: Mapping[str, str]
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
        for option, why in {**_REFUSED, **refused}.items():
            if option.startswith(name) if name.startswith("--") else option == name[:2]:
                if word not in words:  # the user cannot leave out what the recipe has
                    why = f"{why.partition(';')[0]}; the recipe has it: name a checkpoint instead"
                raise UserError(f"{name}: {why}")
    inputs = Inputs(checkpoint, str(args.data), args.subset, args.cpu, tuple(extra))
    note_equal_weights(inputs.checkpoints, "the ensemble", inputs.state)
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
        cfg = inputs.state(path).get("cfg") or {}
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
    """Return a setting of a result in one form, wherever it was written."""
    if name == "checkpoint":
        return [*map(os.path.abspath, value.split(os.pathsep))]
    return str(Path(value)) if name == "data" else value


def parse_for_fairseq(
    name: str, parser: argparse.ArgumentParser, inputs: Inputs, words: Sequence[str]
) -> Any:
    """Return fairseq's configuration for a command.

    Args:
        name: the command, such as ``fairseq-generate``, for messages.
        parser: fairseq's parser of the command.
        inputs: checkpoint, data, and the user's options for fairseq.
        words: our options for fairseq.
    """
    import torch
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    words = [inputs.data, f"--gen-subset={inputs.subset}", *words]
    words += ["--user-dir", str(USER_DIR), "--num-workers", "0"]
    if inputs.cpu or not torch.cuda.is_available():
        words.append("--cpu")
    diverse_mha.register()
    parsed = options.parse_args_and_arch(one_line(parser, name), input_args=[*words, *inputs.extra])
    return convert_namespace_to_omegaconf(cast("argparse.Namespace", parsed))


def opening(name: str, cfg: Any, inputs: Inputs) -> dict[str, Any]:
    """Return what a command's configuration says about opening models, for ``open_models``."""
    with options_blamed(name, inputs):
        overrides = ast.literal_eval(cfg.common_eval.model_overrides)
    return {"cpu": cfg.common.cpu, "half": cfg.common.fp16, "overrides": overrides}


@contextmanager
def options_blamed(name: str, inputs: Inputs) -> Iterator[None]:
    """Context manager: report an error in one line if the user gave options for fairseq.

    ``name`` is the fairseq command that the options belong to.
    """
    try:
        yield
    except (UserError, OSError):
        raise
    except Exception as error:
        if not inputs.extra:
            raise
        raise UserError(
            f"{name} failed with {' '.join(inputs.extra)} ({type(error).__name__}: {error}); "
            "leave these options out, or give them other values"
        ) from error
