"""Diverse beam search of fairseq."""

import torch
from fairseq.search import DiverseBeamSearch
from fairseq.sequence_generator import SequenceGenerator

from tests.toy import build_ours, toy_batch


def test_sentence_numbers_do_not_change_diverse_beam_search():
    model, batch = build_ours(), toy_batch(source_lengths=(5, 3, 4, 9))
    model.eval()
    dictionary = model.decoder.dictionary

    def translate(numbers):
        search = DiverseBeamSearch(dictionary, num_groups=2, diversity_strength=0.5)
        generator = SequenceGenerator(
            [model], dictionary, beam_size=4, max_len_a=1.5, max_len_b=1, search_strategy=search
        )
        sample = {"id": torch.tensor(numbers), "net_input": batch["net_input"]}
        results = generator.generate([model], sample)
        return [[hypothesis["tokens"].tolist() for hypothesis in beams] for beams in results]

    assert translate([907, 3, 0, 21]) == translate([0, 1, 2, 3])
