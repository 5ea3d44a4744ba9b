"""fairseq's own commands with the plugin."""

import re

import pytest
import torch

from tests.integration.conftest import PLUGIN, TRAIN, run, train

pytestmark = pytest.mark.integration

USER_DIR = ["--user-dir", PLUGIN]


def test_training_logs_every_term_in_training_and_validation(trained):
    log = (trained / "log").read_text()
    for phase in ("train_inner", "valid on 'valid' subset", "| train |"):
        lines = [line for line in log.splitlines() if phase in line and "loss" in line]
        assert lines, phase
        for term in ("subspace", "position", "output"):
            value = re.search(rf"disagreement_{term}[= ](-?[\d.]+)", lines[-1])
            assert value and -2 <= float(value[1]) < 0, (phase, term)


def test_a_training_says_once_that_such_trainings_failed(trained):
    assert (trained / "log").read_text().count("with weight 1 in a post-norm") == 1


def test_fairseqs_generate_interactive_and_validate_load_a_checkpoint(trained, data):
    checkpoint = trained / "checkpoint_last.pt"
    done = run(
        "fairseq_cli.generate", data, "--path", checkpoint, *USER_DIR, "--beam", 3, "--cpu",
        "--print-alignment", "hard", "--max-len-b", 12,
    )  # fmt: skip
    found = len(re.findall(r"^H-\d+\t", done.stdout, re.M))
    assert found == 10, "all sentences are translated; stock fairseq drops the last 2 of 10"
    assert len(re.findall(r"^A-\d+\t", done.stdout, re.M)) == 10
    done = run(
        "fairseq_cli.interactive", data, "--path", checkpoint, *USER_DIR, "--cpu", "--beam", 2,
        "--source-lang", "src", "--target-lang", "tgt", "--max-len-b", 12, input="1 2 3\n4 5\n",
    )  # fmt: skip
    assert len(re.findall(r"^H-\d+\t", done.stdout, re.M)) == 2
    done = run(
        "fairseq_cli.validate", data, "--path", checkpoint, *USER_DIR, "--cpu",
        "--max-tokens", 500,
    )  # fmt: skip
    assert "disagreement_output" in done.stdout + done.stderr


def test_a_checkpoint_translates_through_fairseqs_hub_interface(trained, data, tmp_path):
    code = (
        "from fairseq.models.transformer import TransformerModel\n"
        f"m = TransformerModel.from_pretrained({str(trained)!r}, 'checkpoint_last.pt', "
        f"{str(data)!r}, user_dir={str(PLUGIN)!r})\n"
        "print('TRANSLATION', m.translate('1 2 3', beam=2, max_len_b=9))\n"
    )
    (tmp_path / "hub_check.py").write_text(code)
    done = run("hub_check", cwd=tmp_path)
    assert "TRANSLATION" in done.stdout


def test_generate_loads_an_averaged_checkpoint(trained, data, tmp_path):
    averaged = tmp_path / "averaged.pt"
    run("diverse_mha.cli", "average", "--last", 2, "--output", averaged, trained)
    done = run(
        "fairseq_cli.generate", data, "--path", averaged, *USER_DIR, "--cpu", "--max-len-b", 9
    )
    assert "BLEU4" in done.stdout


def reference_scores(checkpoint, data) -> list[float]:
    """Return the log-probability (base 2) of every token of the test set's references."""
    done = run(
        "fairseq_cli.generate", data, "--path", checkpoint, *USER_DIR, "--cpu",
        "--task", "exact_translation", "--score-reference",
    )  # fmt: skip
    lines = re.findall(r"^P-\d+\t(.*)$", done.stdout, re.M)
    assert len(lines) == 10
    return [float(score) for line in lines for score in line.split()]


def test_fairseq_and_the_plugin_load_each_others_checkpoints(trained, data, tmp_path):
    start = trained / "checkpoint_last.pt"
    same_shape = [
        "--encoder-layers", 2, "--decoder-layers", 2,
        "--encoder-attention-heads", 2, "--decoder-attention-heads", 2,
    ]  # fmt: skip
    stock = ["--arch", "transformer", "--criterion", "label_smoothed_cross_entropy", *same_shape]
    once = ["--max-update", 1, "--lr", 0, "--finetune-from-model"]
    train(data, tmp_path / "stock", *stock, *once, start)
    train(data, tmp_path / "back", *once, tmp_path / "stock/checkpoint_last.pt")
    last = (start, tmp_path / "stock/checkpoint_last.pt", tmp_path / "back/checkpoint_last.pt")
    first, *others = (torch.load(path, weights_only=False)["model"] for path in last)
    for other in others:
        assert first.keys() == other.keys()
        assert not [name for name in first if not torch.equal(first[name], other[name])]
    ours = reference_scores(start, data)
    theirs = reference_scores(tmp_path / "stock/checkpoint_last.pt", data)
    # fairseq prints scores with four decimals, so they may differ by one in the last.
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) <= 1.01e-4


def test_fairseqs_task_criterion_and_half_precision_can_be_used(data, tmp_path):
    train(data, tmp_path, "--max-update", 2, "--task", "translation", "--bf16")
    train(
        data, tmp_path / "2", "--max-update", 2, "--criterion", "label_smoothed_cross_entropy",
        "--memory-efficient-fp16",
    )  # fmt: skip


def test_training_writes_tensorboard_logs(data, tmp_path):
    train(data, tmp_path / "run", "--max-update", 1, "--tensorboard-logdir", tmp_path / "board")
    assert {path.parent.name for path in tmp_path.glob("board/*/events.out.tfevents.*")} >= {
        "train", "valid",
    }  # fmt: skip


def test_two_processes_train_and_resume(data, tmp_path):
    options = [
        data, "--processes", 2, "--save-dir", tmp_path, "--disagreement", "output",
        *TRAIN.format(plugin=PLUGIN).split(),
    ]  # fmt: skip
    run("diverse_mha.training.train", *options, "--max-epoch", 1)
    done = run("diverse_mha.training.train", *options, "--max-epoch", 2)
    assert "Loaded checkpoint" in done.stdout + done.stderr
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=False)
    assert state["extra_state"]["train_iterator"]["epoch"] == 3
    assert state["cfg"]["distributed_training"]["distributed_world_size"] == 2


def test_unequal_numbers_of_source_and_target_lines_are_reported_in_one_line(data, tmp_path):
    for file in data.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    for suffix in ("bin", "idx"):  # 120 source lines remain, but 20 target lines
        shorter = (data / f"valid.src-tgt.tgt.{suffix}").read_bytes()
        (tmp_path / f"train.src-tgt.tgt.{suffix}").write_bytes(shorter)
    done = train(tmp_path, tmp_path / "run", "--max-update", 1, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "sides of different length" in done.stderr.splitlines()[-1]


def test_num_batch_buckets_pads_lengths_to_buckets(data, tmp_path):
    done = train(data, tmp_path, "--max-epoch", 1, "--num-batch-buckets", 3)
    assert "bucketing source lengths" in done.stdout + done.stderr


def test_an_error_that_all_processes_raise_is_printed_once(data, tmp_path):
    arguments = [data, *TRAIN.format(plugin=PLUGIN).split(), "--save-dir", tmp_path]
    arguments += ["--max-update", 2, "--disagreement", "sideways"]
    done = run("diverse_mha.training.train", *arguments, "--processes", 2, check=False)
    assert done.returncode
    assert done.stderr.count("error: ") == 1 and "sideways" in done.stderr
