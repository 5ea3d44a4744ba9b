"""The generated demo corpus."""

import pytest

from diverse_mha.corpora.demo import lexicon, sentence_pairs, write_corpus, write_sentences
from diverse_mha.corpora.probing import parse_example


@pytest.fixture(scope="module")
def pairs():
    return sentence_pairs(5500, seed=1)


def test_gold_alignments_link_words_of_the_same_stem(pairs, tmp_path):
    """Words with the same stem translate each other, except function words like "la"."""
    stems = {word.lumi: word.qorun for kind in lexicon().values() for word in kind}
    linked = words = 0
    for source, target, links in pairs[:2000]:
        lumi = source[:-1].split() + [source[-1]]
        qorun = target[:-1].replace(",", " ,").split() + [target[-1]]
        assert links == tuple(sorted(set(links))) and links[-1] == (len(lumi) - 1, len(qorun) - 1)
        for i, j in links:
            stem = next((s for s in (lumi[i][:-1], lumi[i][:-2]) if s in stems), None)
            assert stem is None or stems[stem] in qorun[j]
            words += stem is not None
        linked += len({j for _, j in links})
        unlinked = {qorun[j] for j in range(len(qorun))} - {qorun[j] for _, j in links}
        assert unlinked <= {","}
        free = {word for i, word in enumerate(lumi) if i not in {i for i, _ in links}}
        assert free <= {"cu", "uni"}
        for i, word in enumerate(lumi):
            if word == "ne":
                (of_ne,), (of_verb,) = ([j for k, j in links if k == n] for n in (i, i + 1))
                assert of_ne == of_verb and qorun[of_ne].endswith("nek")
    assert linked > 10000 and words > linked / 2
    write_corpus(tmp_path, pairs=40, seed=1)
    first = (tmp_path / "train.align").read_text().splitlines()[0]
    assert first == " ".join(f"{i}-{j}" for i, j in pairs[0].links)


def test_text_and_labelled_corpora_are_the_tokenised_qorun_sentences(tmp_path):
    pairs = [pair.qorun for pair in sentence_pairs(44, 1)]
    for form in ("text", "labelled"):
        write_sentences(tmp_path / "new" / form, form, pairs=40, seed=1)
    text = {f.stem: f.read_text().splitlines() for f in (tmp_path / "new/text").iterdir()}
    assert {split: len(lines) for split, lines in text.items()} == {
        "train": 40,
        "valid": 2,
        "test": 2,
    }
    everything = [line for split in ("train", "valid", "test") for line in text[split]]
    assert [line.replace(" ,", ",")[:-2] for line in everything] == [line[:-1] for line in pairs]
    assert {line[-2:] for line in everything} <= {" .", " ?"}
    (file,) = (tmp_path / "new/labelled").iterdir()
    examples = [parse_example(line) for line in file.read_text().splitlines()]
    assert [sentence for _, _, sentence in examples] == everything
    assert len({label for _, label, _ in examples}) > 2
