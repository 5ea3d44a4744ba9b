"""Training in this process: errors name config keys, and a refused training leaves no folder."""

import pickle
import traceback
from pathlib import Path

import pytest
from torch.multiprocessing import ProcessRaisedException

from diverse_mha.common.errors import Option, UserError, as_argument, user_error_in
from diverse_mha.recipes.configuration import check, in_keys
from diverse_mha.recipes.recipe import read_recipe
from diverse_mha.training import worker
from diverse_mha.training.worker import Training, with_changes


@pytest.fixture
def training(tmp_path):
    words = ["task.data=x", "common.cpu=true", f"checkpoint.save_dir={tmp_path}/new/run"]
    recipe = read_recipe("demo", words)
    return Training(recipe, check(recipe), ["a note"])


@pytest.mark.parametrize(
    ("raised", "line"),
    [
        (UserError(Option("hsic_samples", -1), ": no"), "criterion.hsic_samples=-1: no"),
        (ValueError("--hsic-samples -1: of torch"), None),
    ],
)
def test_only_user_errors_in_a_worker_process_are_reported_in_one_line(
    raised, line, training, monkeypatch, tmp_path
):
    def spawn(cfg, main):  # fails as torch.multiprocessing.spawn does
        try:
            pickle.loads(pickle.dumps(main))(cfg)
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            text = f"\n\n-- Process 1 terminated with:\n{trace}"
            raise ProcessRaisedException(text, 1, 4711) from None

    def fail(cfg):
        raise raised

    monkeypatch.setattr("fairseq.distributed.utils.call_main", spawn)
    monkeypatch.setattr("fairseq_cli.train.main", fail)
    monkeypatch.setattr("logging.config.dictConfig", lambda config: None)
    with pytest.raises(ProcessRaisedException) as caught:
        training.run({})
    refused = user_error_in(caught.value)
    assert (refused and str(refused)) == line
    assert [*tmp_path.iterdir()] == ([tmp_path / "new"] if line is None else [])


def test_an_error_is_spelt_as_the_user_wrote_the_option():
    error = UserError(
        Option("max_tokens", 1),
        ": no; give ",
        Option("max_tokens", "a b"),
        " or ",
        Option("fp16", True),
    )
    assert str(error) == "--max-tokens 1: no; give --max-tokens 'a b' or --fp16"
    assert error.spelt(as_argument) == "max_tokens=1: no; give max_tokens='a b' or fp16=True"
    keys = {"max_tokens": "dataset.max_tokens", "fp16": "common.fp16"}
    assert str(in_keys(error, keys)) == (
        "dataset.max_tokens=1: no; give dataset.max_tokens='a b' or common.fp16=true"
    )
    assert str(in_keys(error, {})) == str(error) == str(pickle.loads(pickle.dumps(error)))


def test_a_list_is_spelt_as_each_front_end_reads_it():
    error = UserError(Option("lr", [0.1, 0.2]))
    assert str(error) == "--lr 0.1,0.2"
    assert str(in_keys(error, {"lr": "optimization.lr"})) == "optimization.lr=[0.1,0.2]"


def test_several_processes_get_the_recipe_as_it_was_composed_once(tmp_path, monkeypatch):
    """The file may be edited, and the user's words are not read again."""
    words = ["common.bf16=true", "common.seed=4", "task.data=x", "checkpoint.save_dir=new"]
    recipe = read_recipe("multi30k_small", words)
    settings = {"distributed_rank": 1, "distributed_world_size": 2, "distributed_no_spawn": True}
    changed = with_changes(check(recipe), {"optimization.update_freq": [3]})
    Training(recipe, changed, ["a note"]).save(tmp_path / "1.json", settings)
    got, run = [], Training.run
    monkeypatch.setattr("fairseq.distributed.utils.call_main", lambda cfg, _: got.append(cfg))
    monkeypatch.setattr(Training, "run", lambda self, ranks: (got.append(self), run(self, ranks)))
    worker.main(str(tmp_path / "1.json"))
    training, cfg = got
    assert training.recipe.resolved == recipe.resolved and training.notes == ["a note"]
    assert (cfg.common.seed, cfg.common.bf16, cfg.optimization.update_freq) == (4, True, [3])
    assert all(cfg.distributed_training[key] == value for key, value in settings.items())
    assert training.folder == Path("new") and training.recipe.given["common.bf16"] is True


def test_a_run_keeps_its_composed_recipe(training, monkeypatch, tmp_path):
    monkeypatch.setattr("fairseq.distributed.utils.call_main", lambda *_: None)
    monkeypatch.setattr("logging.config.dictConfig", lambda config: None)
    training.run({})
    kept = read_recipe(tmp_path / "new/run/recipe.yaml").resolved
    meant = training.recipe.resolved
    assert meant["scoring"].pop("prepare"), "the corpus is the user's own"
    assert kept == meant
