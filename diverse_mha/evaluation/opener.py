"""Opens models whose heads are inspected, whatever library they come from.

Called by ``analyze``, ``prune``, ``align`` and ``diverse_mha.load``. A checkpoint of fairseq comes
with a data folder, a folder of transformers with text. Only the library of the model is imported.
"""

import argparse
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diverse_mha.common.errors import UserError, add_number
from diverse_mha.common.files import sha256_of
from diverse_mha.evaluation.protocol import AnyAdapter

CONFIG = "config.json"  # file of a folder of transformers


class Source(NamedTuple):
    """Where the sentences of models come from.

    Attributes:
        data: folder of binarised data, or the text files, for results.
        texts: split -> source and target file, for models of transformers; None for fairseq's.
        block: tokens in a block of text, for language models of transformers.
    """

    data: str
    texts: Mapping[str, tuple[str, str | None]] | None = None
    block: int | None = None


def add_text(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Declare the options that give text to models of transformers."""
    group = parser.add_argument_group("models of Hugging Face transformers")
    group.add_argument(
        "--text", metavar="FILE",
        help="raw text, a sentence per line, in place of DATA: the models are folders of "
        "transformers, which cut it with their tokenizers",
    )  # fmt: skip
    group.add_argument(
        "--target", metavar="FILE",
        help="translations of --text, for encoder-decoders; labels, for classifiers",
    )  # fmt: skip
    add_number(
        group, "block", None, "tokens in a block of text, for language models (default: 512)"
    )
    return group


def read_source(
    args: argparse.Namespace, models: list[str], texts: Sequence[tuple[str, str | None]] = ()
) -> Source:
    """Return the source of sentences; without ``--text``, take DATA from the end of ``models``.

    Args:
        args: the command line, with the options of :func:`add_text`.
        models: its positional arguments.
        texts: further text files and their targets.

    Raises:
        UserError: DATA is missing, or the models do not fit the source.
    """
    if args.text is None:
        for name in ("target", "block"):
            if getattr(args, name) is not None:
                raise UserError(f"--{name} {getattr(args, name)}: needs --text; give both")
        folder = next((path for path in models[:-1] or models if is_folder(path)), None)
        if folder is not None:
            raise UserError(f"{folder}: is a folder of transformers; give its text, --text FILE")
        if len(models) < 2:
            raise UserError(
                "the following arguments are required: DATA (for a folder of transformers, --text)"
            )
        return Source(models.pop())
    for path in models:
        if not is_folder(path):
            raise UserError(
                f"{path}: is not a folder of transformers (it has no {CONFIG}); for a checkpoint, "
                "give DATA in place of --text"
            )
    found = {str(text): (text, target) for text, target in ((args.text, args.target), *texts)}
    for file in (file for pair in found.values() for file in pair if file is not None):
        if not Path(file).is_file():
            raise UserError(f"{file}: no such file; give text, a sentence per line")
    return Source(" ".join(file for file in (args.text, args.target) if file), found, args.block)


def is_folder(path: Any) -> bool:
    """Return True for a folder of transformers."""
    return Path(path, CONFIG).is_file()


def open_heads(
    paths: Sequence[Any], source: Source | str | Path, *, cpu: bool = False, tokenizer: Any = None
) -> Sequence[AnyAdapter]:
    """Open models that are compared with each other.

    Args:
        paths: checkpoints, or folders of transformers, or its models as objects.
        source: the source of sentences; a path is a folder of binarised data.
        cpu: do not use a GPU.
        tokenizer: the tokenizer of models that are given as objects.
    """
    if isinstance(source, Source) and source.texts is not None:
        from diverse_mha.hub.adapter import open_folders
        from diverse_mha.hub.texts import Text

        texts = {name: Text(*files) for name, files in source.texts.items()}
        return open_folders(paths, texts, cpu=cpu, block=source.block, tokenizer=tokenizer)
    from diverse_mha.evaluation.adapter import open_checkpoints

    data = source.data if isinstance(source, Source) else source
    return open_checkpoints(paths, data, cpu=cpu)


def named_file(path: str) -> str:
    """Return a path whose folder names a model: a folder of transformers is such a folder."""
    return str(Path(path, "model")) if is_folder(path) else path


def hash_of(path: str | Path) -> str:
    """Return the SHA-256 of a checkpoint, or of the weights in a folder of transformers."""
    if not is_folder(path):
        return sha256_of(path)
    files = sorted(p for p in Path(path).iterdir() if p.suffix in (".safetensors", ".bin"))
    hashes = "".join(sha256_of(file) for file in files)
    return hashes if len(files) == 1 else hashlib.sha256(hashes.encode()).hexdigest()


def equal_models(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each model that has the weights of an earlier one, with that one."""
    if any(map(is_folder, paths)):
        known: dict[str, str] = {}
        for path in paths:
            earlier = known.setdefault(hash_of(path), path)
            if earlier != path:
                yield path, earlier
        return
    from diverse_mha.evaluation.equal_weights import equal_weights

    yield from equal_weights(paths)
