"""Which validation chose the checkpoint that counts."""

from dataclasses import replace

from experiments.experiments import Experiment
from experiments.plan import plan
from experiments.results import best_validation


def test_a_validation_that_is_no_number_is_not_the_best():
    run = plan(Experiment("ptb"), "smoke")
    scored = [{"loss": loss, "ppl": 2**loss} for loss in (float("nan"), 5.0, 4.0, float("nan"))]
    assert best_validation(run, scored) == scored[2]
    assert best_validation(run, scored[:1]) is None


def test_of_validations_alike_the_last_chose_the_checkpoint():
    """Also where the score goes up; what else they report differs."""
    scored = [{"loss": 6.818, "ppl": ppl} for ppl in (112.83, 112.81)] + [{"loss": 7.0, "ppl": 128}]
    assert best_validation(plan(Experiment("ptb"), "smoke"), scored) == scored[1]
    up = {"best_checkpoint_metric": "bleu", "maximize_best_checkpoint_metric": True}
    run = replace(plan(Experiment("ptb"), "smoke"), composed={"checkpoint": up})
    scored = [{"bleu": bleu, "ppl": ppl} for bleu, ppl in ((40.5, 9.0), (40.5, 8.0), (40.4, 7.0))]
    assert best_validation(run, scored) == scored[1]
