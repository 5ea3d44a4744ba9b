"""The classification task: data sets, batches and invalid data."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.tasks import TASK_DATACLASS_REGISTRY

from diverse_mha.corpora.binarise import binarise
from diverse_mha.tasks.sentence_classification import SentenceClassificationTask, SentenceDataset

NAME = "sentence_classification"
WORDS, LABELS = "abcd", "xyz"
NAMES = {"label": LABELS, "length": "123"}


def write(folder, lines, *, split="train", fields=("input0", "input1", "label", "length")):
    """Write examples (sentence, sentence, label, group) as prepared data."""
    dictionaries = {field: dict.fromkeys(NAMES.get(field, WORDS), 1) for field in fields}
    columns = {field: [line[number] for line in lines] for number, field in enumerate(fields)}
    binarise(folder, dictionaries, {split: columns})
    return folder


def write_field(folder, field, column):
    """Rewrite one field of the training examples."""
    names = dict.fromkeys(NAMES.get(field, WORDS), 1)
    binarise(folder, {field: names}, {"train": {field: column}})


PAIRS = [
    ("a b c", "d", "x", "1"),
    ("b", "a a a a a", "z", "3"),
    ("c", "c", "y", "2"),
    ("d d", "a", "x", "1"),
]


def setup(folder, **options) -> SentenceClassificationTask:
    config = TASK_DATACLASS_REGISTRY[NAME](data=str(folder), **options)
    return SentenceClassificationTask.setup_task(config)


def test_pairs_are_batched_in_adjacent_rows(tmp_path):
    task = setup(write(tmp_path, PAIRS), accuracy_by="length")
    assert (task.sentences, task.labels, task.groups) == (2, list(LABELS), ["1", "2", "3"])
    task.load_dataset("train")
    dataset = task.dataset("train")
    batch = dataset.collater([dataset[0], dataset[1]])
    words = [
        [task.dictionary[t] for t in row if t not in (task.dictionary.pad(), task.dictionary.eos())]
        for row in batch["net_input"]["src_tokens"].tolist()
    ]
    assert [" ".join(row) for row in words] == [*PAIRS[0][:2], *PAIRS[1][:2]]
    assert batch["net_input"]["src_tokens"].shape == (4, 6)
    assert batch["net_input"]["src_lengths"].tolist() == [4, 2, 2, 6]  # with </s>
    assert batch["target"].tolist() == [0, 2] and batch["group"].tolist() == [0, 2]
    assert (batch["nsentences"], batch["ntokens"]) == (2, 14)
    assert dataset.collater([]) == {}


def test_single_sentences_are_batched(tmp_path):
    task = setup(
        write(tmp_path, [line[:1] + line[2:3] for line in PAIRS], fields=("input0", "label"))
    )
    assert (task.sentences, task.groups) == (1, [])
    task.load_dataset("train")
    batch = task.dataset("train").collater([task.dataset("train")[1]])
    assert batch["net_input"]["src_tokens"].shape == (1, 2) and "group" not in batch


def test_max_tokens_counts_padding_and_no_example_is_lost(tmp_path):
    task = setup(write(tmp_path, PAIRS * 5, split="valid"))
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    assert dataset.num_tokens(1) == 12 == dataset.num_tokens_vec(np.array([1]))[0]
    batches = task.get_batch_iterator(
        dataset, max_tokens=24, required_batch_size_multiple=8
    ).next_epoch_itr(shuffle=False)
    seen = []
    for batch in batches:
        assert batch["net_input"]["src_tokens"].numel() <= 24
        seen += batch["id"].tolist()
    assert sorted(seen) == list(range(20))


def test_batches_are_sorted_by_length_and_shuffled_in_training():
    tokens = [torch.tensor([4] * n + [2]) for n in (3, 1, 2, 1, 3, 1)]
    sentences = SimpleNamespace(sizes=np.array([len(t) for t in tokens]))
    orders = set()
    for seed in range(6):
        np.random.seed(seed)
        dataset = SentenceDataset([sentences], np.zeros(6), 1, shuffle=True)
        order = dataset.ordered_indices().tolist()
        assert [int(sentences.sizes[i]) for i in order] == [2, 2, 2, 3, 4, 4]
        orders.add(tuple(order))
    assert len(orders) > 2
    fixed = SentenceDataset([sentences], np.zeros(6), 1).ordered_indices()
    assert fixed.tolist() == [1, 3, 5, 2, 0, 4]


def test_training_splits_are_shuffled_and_their_parts_joined(tmp_path):
    for split in ("half", "half1", "valid"):
        task = setup(write(tmp_path, PAIRS, split=split))
    for split, combine, count in (("half", True, 8), ("half", False, 4), ("valid", False, 4)):
        task.load_dataset(split, combine=combine)
        dataset = task.dataset(split)
        assert len(dataset) == len(dataset.labels) == count
        assert dataset.shuffle == (split != "valid")
    task.load_dataset("half", combine=True)
    batch = task.dataset("half").collater([task.dataset("half")[5]])
    assert batch["target"].tolist() == [2], "the second example in the second part"


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda f: (f / "label" / "dict.txt").unlink(), "holds no label/dict.txt; make it with"),
        (
            lambda f: (f / "input1" / "dict.txt").write_text("e 1\n"),
            "input0/dict.txt and input1/dict.txt differ",
        ),
        (lambda f: (f / "input1" / "train.idx").unlink(), "holds no split 'train' in input1/"),
        (
            lambda f: write_field(f, "input1", ["a"]),
            "input0 has 4, input1 has 1, label has 4",
        ),
        (
            lambda f: write_field(f, "label", ["x", "q", "x", "x"]),
            "label/train: example 2 is not one word of label/dict.txt",
        ),
        (
            lambda f: write_field(f, "label", ["x", "z", "y x", "x"]),
            "label/train: example 3 is not one word of label/dict.txt",
        ),
        (
            lambda f: (f / "label" / "dict.txt").write_text("x 1\n"),
            "label/dict.txt: 1 classes; give 2 or more",
        ),
    ],
)
def test_invalid_data_is_reported(tmp_path, spoil, message):
    spoil(write(tmp_path, PAIRS))
    with pytest.raises(ValueError, match=message):
        setup(tmp_path).load_dataset("train")


def test_labels_may_have_an_end_of_sentence_token(tmp_path, monkeypatch):
    write(tmp_path, PAIRS)
    encode = Dictionary.encode_line

    def with_eos(*args, **options):
        return encode(*args, **options | {"append_eos": True})

    monkeypatch.setattr(Dictionary, "encode_line", with_eos)
    write_field(tmp_path, "label", ["z", "x", "y", "x"])
    task = setup(tmp_path)
    task.load_dataset("train")
    assert task.dataset("train").labels.tolist() == [2, 0, 1, 0]


def test_missing_group_folder_is_reported(tmp_path):
    with pytest.raises(ValueError, match="--accuracy-by depth: .* has no such folder"):
        setup(write(tmp_path, PAIRS), accuracy_by="depth")
