"""Trains over the ends of epochs in several gloo processes, and returns what every update logs.

Models are in float64; fairseq computes the softmax of their scores in float32.
"""

from pathlib import Path

import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from fairseq_cli import train as fairseq_train
from omegaconf import open_dict

from diverse_mha.fairseq_fixes.patch import patched
from tests.reliability import runs
from tests.reliability.children import Child
from tests.reliability.distributed import QUIET

BATCHES = 6  # of an update, of all processes together
#: Run -> its options, with which an epoch has 5 batches more than whole updates. The last update of
#: 2 and of 3 processes then has an empty batch behind a real one.
RUNS = {
    "transformer_disagree": "--max-tokens 30 --encoder-layerdrop 0 --token-loss stock",
    "transformer_lm_disagree": "--max-tokens 20 --token-loss stock",
    "sentence_classifier": "--max-tokens 30",
}
_OPTIONS = """--required-batch-size-multiple 1 --max-epoch 2 --log-format none --no-save
--max-tokens-valid 100 --validate-interval-updates 1 --store-ema --ema-decay 0.5
--disagreement output --hsic-weight 0 --hsic-samples 512 --orthogonality-weight 0
--diversity-start 0 --diversity-warmup-updates 0"""
LOGGED = ("wpb", "bsz", "loss", "diversity_loss", "gnorm")


def train(processes: int, data: Path, scratch: Path) -> dict[str, dict]:
    """Train every run for two epochs, on data of ``miniature``.

    Returns:
        Run -> ``updates`` and ``validations``, the values logged by each; ``weights`` and
        ``average``, the model's and their moving average's; ``batches`` of an epoch; ``excess``,
        the source tokens of the largest batch trained on, less the limit.
    """
    store = scratch / f"store{processes}"
    children = [Child(_work, rank, processes, store, data) for rank in range(processes)]
    ended = [child.result() for child in children]
    for code, message in ended:
        assert code == 0, message
    first, *rest = (outcome for _, outcome in ended)
    for run, seen in first.items():  # the first process gets no empty batch
        seen["excess"] = max(seen["excess"], *(outcome[run]["excess"] for outcome in rest), -999)
    return first


def _work(rank: int, world: int, store: Path, data: Path) -> dict[str, dict]:
    torch.set_default_dtype(torch.float64)
    if world > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=world
        )
    return {run: _train(run, rank, world, data) for run in RUNS}


def _train(run: str, rank: int, world: int, data: Path) -> dict:
    given = [*QUIET, *_OPTIONS.split(), *RUNS[run].split(), "--update-freq", BATCHES // world]
    args = runs.words(run, data, Path("unused"), *given)
    cfg = convert_namespace_to_omegaconf(
        options.parse_args_and_arch(options.get_training_parser(), args)
    )
    with open_dict(cfg):
        settings = cfg.distributed_training
        settings.distributed_world_size, settings.distributed_rank = world, rank
        settings.distributed_init_method = "env://" if world > 1 else None
    seen: dict = {"updates": [], "validations": [], "excess": -cfg.dataset.max_tokens}
    step, validate, of_batch = Trainer.train_step, fairseq_train.validate, FairseqTask.train_step

    def update(self, samples):
        seen["trainer"] = self
        with metrics.aggregate() as logged:
            result = step(self, samples)
        seen["updates"].append({name: float(logged[name].avg) for name in LOGGED})
        return result

    def batch(self, sample, *args, **kwargs):
        excess = sample["net_input"]["src_tokens"].numel() - cfg.dataset.max_tokens
        seen["excess"] = max(seen["excess"], excess)
        return of_batch(self, sample, *args, **kwargs)

    def validation(cfg, trainer, task, epochs, subsets):
        losses = validate(cfg, trainer, task, epochs, subsets)
        seen["validations"] += losses
        seen["batches"] = len(epochs.frozen_batches)
        return losses

    def norm(self, limit):  # fairseq's is in float32, to which torch does not narrow float64
        gradients = [p.grad.flatten() for p in self.get_model().parameters() if p.grad is not None]
        return torch.linalg.vector_norm(torch.cat(gradients))

    with (
        patched(Trainer, "train_step", update),
        patched(FairseqTask, "train_step", batch),
        patched(Trainer, "clip_grad_norm", norm),
        patched(fairseq_train, "validate", validation),
    ):
        fairseq_train.main(cfg)
    trainer = seen.pop("trainer")
    seen["weights"] = torch.nn.utils.parameters_to_vector(trainer.get_model().parameters()).tolist()
    average = trainer.ema.get_model().parameters()
    seen["average"] = torch.nn.utils.parameters_to_vector(average).tolist()
    return seen
