"""The Trainer of transformers adds and logs terms as our criterions do."""

import copy
import inspect
import subprocess
import sys

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from transformers import (  # noqa: E402
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainingArguments,  # noqa: E402
)

from diverse_mha.common.errors import UserError  # noqa: E402
from diverse_mha.common.files import ROOT  # noqa: E402
from diverse_mha.hub import HeadTerms  # noqa: E402
from tests.hub.models import batch, build  # noqa: E402

RATE = 0.1
#: In transformers 5.0, the Trainer also counts the labels that Llama's loss leaves out.
SHIFTS = "_loss_shifts_labels" in inspect.getsource(Trainer)
OPTIONS = {"cka_weight": 0.5, "disagreement": "position", "disagreement_weight": 0.25}


def rows(name, seed=2, sentences=4):
    """Return the sentences of a batch, which have different numbers of labels."""
    inputs = batch(name, seed, sentences)
    return [{key: x[n] for key, x in inputs.items()} for n in range(sentences)]


def stack(examples):
    return {key: torch.stack([row[key] for row in examples]) for key in examples[0]}


def arguments(folder, kind=TrainingArguments, **options):
    """Return arguments for plain gradient descent on batches of two sentences, in order."""
    defaults = {
        "per_device_train_batch_size": 2, "max_steps": 1, "learning_rate": RATE, "optim": "sgd",
        "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "logging_steps": 1,
        "report_to": [], "use_cpu": True, "disable_tqdm": True, "save_strategy": "no",
    }  # fmt: skip
    return kind(str(folder), **defaults | options)


class Sequential:
    """Mixin: a Trainer that takes sentences in order; transformers 5.0 has no option for it."""

    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def run(model, data, folder, terms, base=Trainer, kind=TrainingArguments, **options):
    ordered = type(base.__name__, (Sequential, base), {})
    trainer = terms.trainer(ordered)(
        model=model,
        args=arguments(folder, kind, **options),
        train_dataset=data,
        eval_dataset=data,
        data_collator=stack,
    )
    trainer.train()
    return trainer


def divisor(inputs):
    """Return the number of labels by which the Trainer divides the loss of a batch."""
    return float((inputs["labels"][:, SHIFTS:] != -100).sum())


def shares(batches):
    """Return the share of each batch in the labels that the Trainer counts."""
    counts = [*map(divisor, batches)]
    return [count / sum(counts) for count in counts]


def expected_step(model, batches, share):
    """Return the parameters after a step of gradient descent, and parts of the loss.

    The loss is the sum over batches of share * (mean loss + terms). The parts are: the loss
    without terms, the loss with terms, and the values of the terms in each batch.
    """
    model, language_model = copy.deepcopy(model), model.config.model_type == "llama"
    total, plain, values = 0.0, 0.0, []
    with HeadTerms(model, **OPTIONS) as terms:
        for inputs, part in zip(batches, share, strict=True):
            with terms.collect(inputs, shifted=SHIFTS and language_model) as heads:
                loss = model(**inputs).loss
            if language_model:
                loss = loss * (inputs["labels"][:, 1:] != -100).sum() / divisor(inputs)
            total = total + part * (loss + heads.loss())
            plain += part * float(loss.detach())
            values.append(heads.values)
    total.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= RATE * parameter.grad
    return model.state_dict(), plain, float(total.detach()), values


@pytest.mark.parametrize("steps", [1, 2])
def test_a_step_is_the_gradient_of_mean_loss_plus_terms(tmp_path, steps):
    """Accumulated batches are weighted by their share of labels."""
    model, data = build("llama"), rows("llama", sentences=2 * steps)
    batches = [stack(data[n : n + 2]) for n in range(0, len(data), 2)]
    share = shares(batches)
    state, plain, whole, values = expected_step(model, batches, share)
    with HeadTerms(model, **OPTIONS) as terms:
        trainer = run(model, data, tmp_path, terms, gradient_accumulation_steps=steps)
    torch.testing.assert_close(model.state_dict(), state, rtol=1e-6, atol=1e-8)
    assert steps == 1 or share[0] != share[1]
    log = trainer.state.log_history[0]
    assert log["loss"] == pytest.approx(plain, rel=1e-5)
    assert log["diversity_loss"] == pytest.approx(whole - plain, rel=1e-5)
    for term in ("cka", "disagreement_position"):
        mean = sum(part * value[term] for part, value in zip(share, values, strict=True))
        assert log[term] == pytest.approx(mean, rel=1e-5)


@pytest.mark.system
def test_processes_are_weighted_by_their_share_of_labels(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "-m", "tests.hub.processes", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    log, found = torch.load(tmp_path / "done")
    data = rows("llama")
    batches = [stack(data[:2]), stack(data[2:])]
    share = shares(batches)
    state, plain, whole, _ = expected_step(build("llama"), batches, share)
    torch.testing.assert_close(found, state, rtol=1e-6, atol=1e-8)
    assert log["loss"] == pytest.approx(plain, rel=1e-5)
    assert log["diversity_loss"] == pytest.approx(whole - plain, rel=1e-5)


def test_terms_are_averaged_where_the_trainer_averages_losses(tmp_path):
    model, data = build("bert"), rows("bert")
    model.accepts_loss_kwargs = False
    batches = [stack(data[:2]), stack(data[2:])]
    state, plain, *_ = expected_step(model, batches, [0.5, 0.5])
    with HeadTerms(model, **OPTIONS) as terms:
        trainer = run(model, data, tmp_path, terms, gradient_accumulation_steps=2)
    torch.testing.assert_close(model.state_dict(), state, rtol=1e-6, atol=1e-8)
    assert trainer.state.log_history[0]["loss"] == pytest.approx(plain, rel=1e-5)


def test_evaluation_has_neither_terms_nor_drophead(tmp_path):
    model, data = build("marian"), rows("marian")
    with torch.no_grad():
        expected = float(model.eval()(**stack(data)).loss)
    with HeadTerms(model, drophead=0.5, **OPTIONS) as terms:
        trainer = terms.trainer(Trainer)(
            model=model, args=arguments(tmp_path), eval_dataset=data, data_collator=stack
        )
        found = trainer.evaluate()
    assert found["eval_loss"] == pytest.approx(expected, rel=1e-6)
    assert not {"cka", "diversity_loss"} & found.keys()


def test_a_checkpoint_has_the_form_of_a_model_without_terms(tmp_path):
    model, data = build("marian").float(), rows("marian")
    with HeadTerms(model, drophead=0.5, **OPTIONS) as terms:
        run(model, data, tmp_path, terms, save_strategy="steps", save_steps=1)
    saved = type(model).from_pretrained(tmp_path / "checkpoint-1")
    assert "diverse_mha" not in (tmp_path / "checkpoint-1/config.json").read_text()
    assert saved.config._attn_implementation == "sdpa"
    assert saved.state_dict().keys() == model.state_dict().keys()


@pytest.mark.parametrize(
    "options", [{"bf16": True}, {"gradient_checkpointing": True}, {"label_smoothing_factor": 0.1}]
)
def test_terms_work_with_options_of_the_trainer(tmp_path, options):
    model, data = build("marian").float(), rows("marian")
    for row in data:
        row["decoder_input_ids"] = row["labels"].clamp_min(1).roll(1)
    with HeadTerms(model, **OPTIONS) as terms:
        trainer = run(
            model, data, tmp_path, terms, Seq2SeqTrainer, Seq2SeqTrainingArguments, **options
        )
    log = trainer.state.log_history[0]
    assert isinstance(trainer, Seq2SeqTrainer) and 0 < log["cka"] <= 3
    assert all(p.isfinite().all() for p in model.parameters())


def follow_a_schedule(folder, name, **options):
    model, data = build(name), rows(name)
    with HeadTerms(model, diversity_start=2, **OPTIONS) as terms:
        logs = run(model, data, folder, terms, max_steps=4, **options).state.log_history[:4]
    assert ["cka" in log for log in logs] == [False, False, True, True]
    return logs


def test_a_schedule_follows_the_updates(tmp_path):
    follow_a_schedule(tmp_path, "bert")


@pytest.mark.integration
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_torch_compile_does_not_change_the_logs(tmp_path, name):
    options = {"torch_compile": True, "torch_compile_backend": "aot_eager"}
    logs = follow_a_schedule(tmp_path, name), follow_a_schedule(tmp_path, name, **options)
    for one, other in zip(*logs, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


def make(terms, model, folder, **options):
    return terms.trainer(Trainer)(model=model, args=arguments(folder, **options))


def test_options_that_would_drop_terms_are_refused(tmp_path, monkeypatch):
    model = build("bert")
    with HeadTerms(model, cka_weight=0.5) as terms:
        with pytest.raises(UserError, match="^trainer: needs a class, not a Trainer object"):
            terms.trainer(Trainer(model=model, args=arguments(tmp_path)))
        with pytest.raises(UserError, match="the trainer has another model"):
            make(terms, build("bert"), tmp_path)
        monkeypatch.setattr(TrainingArguments, "n_gpu", 2)
        with pytest.raises(UserError, match="^HeadTerms: nn.DataParallel over 2 GPUs"):
            make(terms, model, tmp_path)
    monkeypatch.undo()
    with pytest.raises(UserError, match="the terms are closed"):
        make(terms, model, tmp_path)
