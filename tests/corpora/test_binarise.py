"""fairseq's format for sentences with labels."""

from fairseq.data import Dictionary, data_utils

from diverse_mha.corpora.binarise import binarise


def test_sentences_end_with_a_mark_and_labels_do_not(tmp_path):
    table = {"input0": ["a b a", "b"], "label": ["yes", "no"]}
    binarise(tmp_path, {"input0": {"a": 2, "b": 2}, "label": {"no": 1, "yes": 1}}, {"train": table})
    found = {}
    for field, lines in table.items():
        dictionary = Dictionary.load(str(tmp_path / field / "dict.txt"))
        data = data_utils.load_indexed_dataset(str(tmp_path / field / "train"), dictionary)
        found[field] = [[dictionary[int(n)] for n in item] for item in data]
        assert len(data) == len(lines)
    assert found == {"input0": [["a", "b", "a", "</s>"], ["b", "</s>"]], "label": [["yes"], ["no"]]}
