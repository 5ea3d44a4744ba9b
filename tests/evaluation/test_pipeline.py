"""Preparation, averaging and scoring in recipes."""

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.recipes.steps import Pipeline, check_scoring, read_pipeline

TRANSLATION = {"task": {"_name": "exact_translation"}}


def test_preparation_averaging_search_and_score_are_read_from_a_recipe():
    scoring = {"prepare": "prepare-x.sh --merges 5", "average": 10, "score": "compound_split_bleu"}
    search = {"beam": 4, "lenpen": 0.6, "max_len_a": 1.2, "sampling": True, "prefix_size": 0}
    there = {**TRANSLATION, "generation": search, "scoring": scoring}
    found = read_pipeline(there, defaults={"prefix_size": 0})
    assert found.prepare == ("prepare-x.sh", "--merges", "5")
    assert (found.average, found.average_by) == (10, "update")
    arguments = ("--max-len-a", "1.2", "--sampling", "--compound-split")
    assert found.evaluate == arguments
    assert found.options == ("--beam", "4", "--lenpen", "0.6", *arguments)
    words = ["prepare-x.sh", "--merges", 5]  # as a list, which YAML has, too
    assert read_pipeline(there | {"scoring": {"prepare": words}}).prepare == found.prepare
    model = {"task": {"_name": "exact_language_modeling"}, "eval_lm": {"context_window": 96}}
    assert read_pipeline(model).options == ("--context-window", "96")


def test_older_checkpoints_have_the_former_defaults():
    old = Pipeline("translation", score="tokenised_bleu")
    assert read_pipeline({**TRANSLATION, "scoring": {"_name": "bleu", "pad": 1}}) == old
    assert old.options == ("--beam", "5", "--lenpen", "1")


@pytest.mark.parametrize(
    "scoring",
    [
        {"averages": 2},
        {"score": "ter"},
        {"average": -1},
        {"average_by": "hour"},
        {"prepare": "prepare-x.sh --like 'a"},
    ],
)
def test_wrong_settings_are_refused_in_one_line(scoring):
    with pytest.raises(UserError, match=rf"mine: scoring.*{next(iter(scoring))}.*; \w+"):
        read_pipeline({**TRANSLATION, "scoring": scoring}, "mine")


@pytest.mark.parametrize(
    ("key", "value", "cure"),
    [
        ("beam", 0, "a whole number, 1 or more"),
        ("beam", "five", "a whole number, 1 or more"),
        ("beam", 2.5, "a whole number, 1 or more"),
        ("beam", None, "a whole number, 1 or more"),
        ("lenpen", "0,6", "a number from -10 to 10"),
        ("lenpen", "abc", "a number from -10 to 10"),
        ("lenpen", float("nan"), "a number from -10 to 10"),
    ],
)
def test_a_wrong_beam_or_length_penalty_is_refused_before_training(key, value, cure):
    there = {**TRANSLATION, "generation": {key: value}}
    message = f"^mine: generation.{key}={'null' if value is None else value}; give {cure}$"
    for check in (check_scoring, read_pipeline):
        with pytest.raises(UserError, match=message):
            check(there, "mine")
    check_scoring({"task": {"_name": "exact_language_modeling"}, "generation": {key: value}})


def test_beam_and_length_penalty_may_be_strings_and_nothing_is_left_unresolved():
    found = read_pipeline({**TRANSLATION, "generation": {"beam": "4", "lenpen": "0.6"}})
    assert (found.beam, found.lenpen) == (4, 0.6)
    for group, key, cure in (
        ("generation", "lenpen", "give a number from -10 to 10"),
        ("scoring", "average", "give a whole number"),
        ("scoring", "average_by", "choose from update"),
        ("scoring", "score", "choose from tokenised_bleu"),
    ):
        there = {**TRANSLATION, group: {key: "${x}"}}
        for check in (check_scoring, read_pipeline):
            with pytest.raises(UserError, match=f"mine: {group}.{key}=.*; {cure}"):
                check(there, "mine")
    with pytest.raises(UserError, match="scoring has no key 'avrage'"):
        check_scoring({**TRANSLATION, "scoring": {"avrage": "${x}"}})
