"""From experiments to runs: settings, names, shared runs and the best checkpoint."""

from dataclasses import replace
from pathlib import Path

from diverse_mha.recipes.recipe import lookup
from experiments.measures import MEASURES, is_part
from experiments.numbers import Choices, best_validation, plan_table
from experiments.papers import Experiment, find
from experiments.runs import Place, fingerprint, plan


def runs(paper, table, scale="smoke", **choices):
    return plan_table(find(paper, table), Choices(scale, **choices)).runs


def test_tables_share_runs_of_the_same_experiment():
    first, second = runs("li2018", "1"), runs("li2018", "2")
    assert len(first) == 7 and len(second) == 5
    assert len(set(first) & set(second)) == 2, (
        "both have the baseline and output disagreement in the encoder"
    )
    assert set(runs("li2018", "4")) <= set(first) and set(runs("li2018", "5")) <= set(first)
    # The row of Table 5 with aggregation is the experiment of row "1+2" in Table 4.
    assert set(runs("li2021", "4")) & set(runs("li2021", "5", "smoke"))
    # At the small scale, Multi30k replaces both corpora; for wmt14_en_de it is reversed.
    into = plan(Experiment("wmt14_en_de"), "small")
    assert into == plan(Experiment("iwslt17_de_en", reverse=True), "small")
    # Size base has embedding dimension 512 and 8 heads.
    base = plan(Experiment("iwslt17_de_en"), "paper")
    assert plan(Experiment("iwslt17_de_en", width=512, heads=8), "paper") == base


def test_tables_of_the_papers_share_small_runs_with_the_study():
    studied = set(runs("study", "translation-small", "small"))
    assert len(studied & set(runs("yun2021", "4", "small"))) == 5
    assert set(runs("zheng2021", "figure-4", "small")) <= studied


def test_an_experiment_in_bfloat16_is_a_separate_run():
    (plain, *_), (brief, *_) = runs("li2018", "1"), runs("li2018", "1", bf16=True)
    assert lookup(plain.composed, "common.bf16") is None
    assert lookup(brief.composed, "common.bf16") is True
    (full, *_) = runs("study", "translation-small", "small", bf16=False)
    assert lookup(full.composed, "common.bf16") is False, "the choice overrides the recipe"
    assert plain != brief and plain.key != brief.key
    for bf16 in (True, False):
        run, *_ = runs("li2018", "1", "paper", bf16=bf16)
        assert lookup(run.composed, "common.fp16") is False, "bf16 replaces the recipe's fp16"
        assert bool(lookup(run.composed, "common.bf16")) is bf16


def test_different_rows_are_different_runs():
    for paper, table, count in (("yun2021", "5", 10), ("li2021", "3", 7), ("zheng2021", "4", 4)):
        assert len(runs(paper, table)) == count


def test_a_run_name_contains_the_choices_and_a_key_of_all_settings():
    experiment = Experiment("wmt17_zh_en", method="disagreement_output")
    run = plan(experiment, "small")
    assert run.name == f"multi30k_small.de-en.disagreement_output.seed1.{run.key}"
    others = [
        plan(experiment, "small", seed=2),
        plan(experiment, "small", updates=7),
        plan(experiment.but(method="disagreement_em_routing"), "small"),
        plan(experiment.but(size="big"), "small"),
        plan(experiment.but({"criterion.disagreement_on": "encoder"}), "small"),
        plan(experiment.but({"task.rebuild_batches": False}), "small"),  # True by default
        plan(experiment.but(reverse=True), "small"),
        plan(experiment, "smoke"),
    ]
    assert len({other.key for other in [run, *others]}) == len(others) + 1


def test_paper_scale_runs_are_evaluated_with_the_settings_of_their_recipe():
    run = plan(Experiment("wmt14_en_de_google", method="coda"), "paper")
    arguments = ("--beam", "4", "--lenpen", "0.6", "--compound-split")
    assert (run.pipeline.options, run.pipeline.average) == (arguments, 10)
    assert (run.corpus, run.languages) == ("wmt14-en-de-google", ("en", "de"))
    # Keys of published runs must not change.
    assert run.key == "6fef1669"
    logic = plan(Experiment("logic"), "small")
    assert logic.key == "e5001eab" and logic.corpus == "logic"


def test_logic_at_paper_scale_uses_the_published_pairs():
    run = plan(Experiment("logic"), "paper")
    assert "--published" in run.pipeline.prepare and run.corpus == "logic-published"
    generated = replace(run.pipeline, prepare=("prepare-logic.sh",))
    assert fingerprint(run.composed, generated, "logic") != run.key


def test_settings_of_an_experiment_are_in_its_composed_recipe():
    run = plan(
        Experiment("wmt14_en_de", size="big", method="disagreement_em_routing"), "paper", seed=3
    )
    assert run.choices == {"size": "big", "method": "disagreement_em_routing"}
    settings = {
        "model.encoder_embed_dim": 1024,
        "model.aggregation_encoder_layers": "1,2",
        "criterion.disagreement": "output",
        "common.seed": 3,
        "optimization.max_update": 300000,
        "task.target_lang": "de",
    }
    assert {name: lookup(run.composed, name) for name in settings} == settings
    run = plan(Experiment("iwslt17_de_en", width=128, heads=4), "small")
    assert lookup(run.composed, "model.decoder_embed_dim") == 32, (
        "the small scale divides dimensions by 4"
    )
    assert lookup(run.composed, "model.decoder_ffn_embed_dim") == 64


def test_baselines_of_coda_recipes_have_no_coda():
    for corpus, scale in (("wiki103", "paper"), ("wiki103", "small"), ("iwslt14_de_en", "paper")):
        size = "iwslt" if corpus == "iwslt14_de_en" else "base"
        run = plan(Experiment(corpus, size=size), scale)
        assert "coda" not in lookup(run.composed, "model._name")
        assert lookup(run.composed, "model.logits") == "none"


def test_the_effective_batch_does_not_depend_on_the_number_of_gpus():
    whole = plan(Experiment("ptb"), "small")
    for batches in (1, 2, 8, 16, 12):
        composed = {"optimization": {"update_freq": [batches]}}
        run = replace(whole, composed=composed)
        for gpus in range(1, 17):
            assert batches % run.gpus(gpus) == 0
            assert 1 <= run.gpus(gpus) <= gpus
        assert run.gpus(0) == 0, "without a GPU, the CPU is used"
        assert replace(run, scale="smoke").gpus(8) == 0
        expected = {1: 1, 2: 2, 8: 8, 16: 8, 12: 6}
        assert run.gpus(8) == expected[batches]


def test_a_shorter_run_averages_no_checkpoints_and_has_another_key():
    whole, trial = (
        plan(Experiment("wmt14_en_de_google"), "paper"),
        plan(Experiment("wmt14_en_de_google"), "paper", updates=20),
    )
    assert whole.pipeline.average == 10
    assert trial.pipeline.average == 0 and trial.key != whole.key


def test_a_validation_loss_of_nan_is_never_the_best():
    run = plan(Experiment("ptb"), "smoke")
    scored = [{"loss": loss, "ppl": 2**loss} for loss in (float("nan"), 5.0, 4.0, float("nan"))]
    assert best_validation(run, scored) == scored[2]
    assert best_validation(run, scored[:1]) is None


def test_the_last_of_equal_validations_is_the_best():
    """Fairseq chooses its best checkpoint in the same way, for losses and for maximised scores."""
    scored = [{"loss": 6.818, "ppl": ppl} for ppl in (112.83, 112.81)] + [{"loss": 7.0, "ppl": 128}]
    assert best_validation(plan(Experiment("ptb"), "smoke"), scored) == scored[1]
    up = {"best_checkpoint_metric": "bleu", "maximize_best_checkpoint_metric": True}
    run = replace(plan(Experiment("ptb"), "smoke"), composed={"checkpoint": up})
    scored = [{"bleu": bleu, "ppl": ppl} for bleu, ppl in ((40.5, 9.0), (40.5, 8.0), (40.4, 7.0))]
    assert best_validation(run, scored) == scored[1]


def test_a_table_takes_the_studys_measurement_and_a_figure_does_not():
    """The study's files are published without single pairs, which figures read."""

    def files(table):
        needs = plan_table(find("zheng2021", table), Choices("small")).needs
        place = Place(out=Path("out"), data=Path("data"))
        return {file.name for need in needs.values() if need.heads for file in need.files(place)}

    study = "heads.svcca+cka+jsd+disagreement.json"
    assert files("table-4") == {"heads.jsd.json", study}
    assert files("figure-4") == {"heads.jsd.json"}
    assert all(is_part(measure.heads) == bool(measure.heads) for measure in MEASURES.values())
    assert not is_part({"measures": "jsd", "subset": "test"})


def test_a_tables_runs_are_found_by_row_column_and_seed():
    table = find("yun2021", "figure-2")
    plan_of = plan_table(table, Choices("small", (2, 1)))
    assert list(plan_of.needs)[0] == (table.rows[0].name, table.columns[0], 2)
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            needs = plan_of.of(row, column)
            assert [need.run.seed for need in needs.values()] == [*needs] == [2, 1]
            assert all(need.against.seed == seed + 1 for seed, need in needs.items())
            assert needs[1].run == plan(cell.experiment, "small", 1)
    quoted = find("li2018", "2")
    assert not any(
        plan_table(quoted, Choices("smoke")).of(row, quoted.columns[0])
        for row in quoted.rows
        if row.cells[0].experiment is None
    )
