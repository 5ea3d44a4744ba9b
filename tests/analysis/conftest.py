"""Fixtures: tiny binarised data and untrained checkpoints."""

import random

import pytest
import torch
from fairseq import options, tasks
from fairseq.data import Dictionary, indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from tests.toy import dictionary_of, write_split

SHAPE = "--{0}-embed-dim 16 --{0}-ffn-embed-dim 24 --{0}-layers 2 --{0}-attention-heads {1}"


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Folder of binarised sentence pairs, each a random sentence and its reversal.

    The source sentences are also the text for language models. Some words need escaping in pages
    and plots.
    """
    words = [str(n) for n in range(8)] + [
        "<script>alert(1)</script>",
        "$x$",
        "&amp;",
        '"',
        "好",
    ]
    folder = tmp_path_factory.mktemp("data") / "bin"
    folder.mkdir()
    dictionary = dictionary_of(words)
    generator = random.Random(1)
    lines = [[generator.choice(words) for _ in range(generator.randint(6, 12))] for _ in range(40)]
    for name in ("dict.src.txt", "dict.tgt.txt", "dict.txt"):
        dictionary.save(str(folder / name))
    write_split(folder / "valid.src-tgt.src", dictionary, map(" ".join, lines))
    write_split(folder / "valid.src-tgt.tgt", dictionary, (" ".join(x[::-1]) for x in lines))
    write_split(folder / "valid", dictionary, map(" ".join, lines))
    return folder


def untrained(args) -> dict:
    """Return a checkpoint of an untrained model, in the form of fairseq-train's."""
    cfg = convert_namespace_to_omegaconf(args)
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    history = {"criterion_name": "", "optimizer_name": "", "num_updates": 1}
    return {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": model.state_dict(),
        "optimizer_history": [history | {"lr_scheduler_state": {}}],
        "task_state": {},
        "extra_state": {"epoch": 1, "train_iterator": {"epoch": 1}},
        "last_optimizer_state": None,
    }


@pytest.fixture(scope="session")
def pairs(tmp_path_factory, data):
    """Folder of labelled sentence pairs for a classifier; both are source sentences of ``data``."""
    folder = tmp_path_factory.mktemp("pairs") / "bin"
    words = Dictionary.load(str(data / "dict.txt"))
    labels = dictionary_of("xyz")
    texts = indexed_dataset.make_dataset(str(data / "valid.src-tgt.src"), impl="mmap")
    texts = [words.string(texts[i]) for i in range(len(texts))]
    for name, dictionary, lines in (
        ("input0", words, texts),
        ("input1", words, texts[::-1]),
        ("label", labels, ["xyz"[i % 3] for i in range(len(texts))]),
    ):
        (folder / name).mkdir(parents=True)
        dictionary.save(str(folder / name / "dict.txt"))
        write_split(folder / name / "valid", dictionary, lines)
    return folder


@pytest.fixture(scope="session")
def save(tmp_path_factory, data):
    """Function that saves an untrained model and returns the path of its checkpoint."""
    sides_of = {
        "translation": ["encoder", "decoder"],
        "language_modeling": ["decoder"],
        "sentence_classification": ["encoder"],
    }

    def save(name, arch, *arguments, heads=4, task="translation", data=data):
        sides = sides_of[task]
        shape = " ".join(SHAPE.format(side, heads) for side in sides).split()
        command = [str(data), "--task", task, "--arch", arch, *shape, *arguments]
        args = options.parse_args_and_arch(options.get_training_parser(task), command)
        torch.manual_seed(len(name))
        path = tmp_path_factory.mktemp("runs") / name / "checkpoint_best.pt"
        path.parent.mkdir()
        torch.save(untrained(args), path)
        return path

    return save


@pytest.fixture(scope="session")
def checkpoint(save):
    return save("baseline", "transformer_disagree")
