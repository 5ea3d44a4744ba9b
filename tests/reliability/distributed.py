"""Compares gradients of several gloo processes with those of one process, by fairseq's Trainer.

Models are in float64, so gradients of equal computations agree to 1e-12.
"""

import copy
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from omegaconf import open_dict

from diverse_mha.criterions.diversity import DiversityConfig
from tests.reliability import runs
from tests.reliability.children import Child

_ADAPTIVE = (
    "--criterion adaptive_loss_with_diversity --adaptive-softmax-cutoff 8,14 "
    "--adaptive-softmax-factor 2"
).split()
QUIET = (
    "--attention-noise 0 --dropout 0 --attention-dropout 0 --activation-dropout 0 --drophead 0 "
    "--optimizer sgd --lr 0.1 --clip-norm 0"
).split()

# Every architecture; language models with both criterions.
RUNS = {
    **{name: (name, []) for name in runs.RUNS if name != "transformer_lm_coda"},
    "transformer_lm_coda": (
        "transformer_lm_disagree",
        ["--arch", "transformer_lm_coda_tiny"],
    ),
    **{
        f"{name}_adaptive": ("transformer_lm_disagree", ["--arch", f"{name}_tiny", *_ADAPTIVE])
        for name in ("transformer_lm_disagree", "transformer_lm_routing", "transformer_lm_coda")
    },
}
_OFF = {
    "disagreement": None,
    "hsic_weight": 0.0,
    "hsic_samples": 512,  # the default; other values are refused without HSIC
    "orthogonality_weight": 0.0,
    "diversity_start": 0,
    "diversity_warmup_updates": 0,
    "orthogonality_normalization": DiversityConfig.orthogonality_normalization,
}
_HSIC = {"hsic_weight": 0.1, "hsic_samples": 1000, "hsic_normalization": "mean"}
_ORTHOGONALITY = {"orthogonality_weight": 0.1, "orthogonality_normalization": "mean-loss"}
TERMS = {
    "none": {},
    "subspace": {"disagreement": "subspace"},
    "position": {"disagreement": "position"},
    "output": {"disagreement": "output"},
    "hsic": _HSIC,
    "centred": {"disagreement": "output", "disagreement_form": "centred,squared"},
    "orthogonality": _ORTHOGONALITY,
    "summed-loss": {**_ORTHOGONALITY, "orthogonality_normalization": "summed-loss"},
    "all": {"disagreement": "subspace,position,output", **_HSIC, **_ORTHOGONALITY},
}
# Terms on target positions only, for encoder-decoder models.
TARGET_TERMS = {
    "target-side": {"disagreement": "position,output", "disagreement_on": "cross,decoder"},
    "target-subspace": {"disagreement": "subspace", "disagreement_on": "decoder"},
}

# Source and target lengths of each worker's sentences.
BATCHES = {
    "uneven": [
        [(5, 4), (3, 6), (7, 2)],
        [(2, 8), (9, 3)],
        [(4, 3)],
        [(6, 2), (2, 5), (2, 4), (3, 7)],
    ],
    "balanced": [
        [(5, 4), (3, 6), (4, 2)],
        [(3, 2), (4, 4), (5, 6)],
        [(4, 6), (5, 2), (3, 4)],
        [(5, 6), (4, 4), (3, 2)],
    ],
}


@dataclass
class Outcome:
    """The result of a case. Deviations are relative to the largest gradient.

    Attributes:
        run: key of ``RUNS``.
        term: key of ``TERMS`` or ``TARGET_TERMS``.
        batch: key of ``BATCHES``, or ``idle``: uneven, and the last worker has no sentence.
        accumulated: deviation from one process that accumulates the workers' batches.
        joined: deviation from one process that has all sentences in one batch.
        logged: largest relative deviation of a logged value, in training and in validation, from
            that of the process that accumulates batches.
    """

    run: str
    term: str
    batch: str
    accumulated: float
    joined: float
    logged: float


def compare(world: int, cases: Sequence[tuple[str, str]], data: Path, scratch: Path):
    """Train one step in ``world`` processes and in one, on data of ``miniature``.

    Returns:
        An ``Outcome`` for every case (run and term) and batch.
    """
    store = scratch / f"store{world}"
    workers = [Child(_work, rank, world, store, list(cases), data) for rank in range(world)]
    ended = [worker.result() for worker in workers]
    for code, message in ended:
        assert code == 0, message
    return ended[0][1]


def _work(rank: int, world: int, store: Path, cases: list, data: Path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world
    )
    outcomes = []
    for run, term in cases:
        several = Training(run, term, data, rank, world)
        alone = Training(run, term, data, 0, 1) if rank == 0 else None
        for batch in ("uneven", "balanced", "idle"):
            lengths = BATCHES["uneven" if batch == "idle" else batch][:world]
            if batch == "idle":
                lengths = [*lengths[:-1], []]
            parts = several.samples(lengths)
            ours = several.step([parts[rank]]), several.validate(parts[rank])
            if alone is None:
                continue
            real = [part for part in parts if part]
            theirs = alone.step(real), alone.validate(*real)
            joined = alone.step(several.samples([sum(lengths, [])]))
            outcomes.append(
                Outcome(
                    run, term, batch,
                    accumulated=deviation(ours[0][0], theirs[0][0]),
                    joined=deviation(ours[0][0], joined[0]),
                    logged=max(
                        log_deviation(ours[0][1], theirs[0][1]),
                        log_deviation(ours[1], theirs[1]),
                    ),
                )
            )  # fmt: skip
    torch.distributed.destroy_process_group()
    return outcomes


@functools.cache
def _configuration(run: str, data: Path):
    name, more = RUNS[run]
    words = runs.words(name, data, Path("unused"), *QUIET, *more)
    if name.startswith("transformer") and "_lm_" not in name:
        words += ["--encoder-layerdrop", "0"]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    cfg = convert_namespace_to_omegaconf(args)
    if "token_loss" in cfg.criterion:
        # Otherwise one process would use the fused loss, and several processes would use fairseq's
        # loss, which rounds to float32.
        cfg.criterion.token_loss = "stock"
    return cfg


class Training:
    """fairseq's Trainer with a float64 model and an optimizer that only records gradients."""

    def __init__(self, run: str, term: str, data: Path, rank: int, world: int):
        self.cfg = copy.deepcopy(_configuration(run, data))
        with open_dict(self.cfg):
            self.cfg.criterion.update({**_OFF, **(TERMS | TARGET_TERMS)[term]})
            settings = self.cfg.distributed_training
            settings.distributed_world_size, settings.distributed_rank = world, rank
            settings.distributed_init_method = "env://" if world > 1 else None
        self.task = tasks.setup_task(self.cfg.task)
        self.task.load_dataset("train")
        torch.manual_seed(1)
        model = self.task.build_model(self.cfg.model).double()
        criterion = self.task.build_criterion(self.cfg.criterion)
        metrics.reset()
        self.trainer = Trainer(self.cfg, self.task, model, criterion)
        self.task.optimizer_step = self._note
        # fairseq computes the norm of gradients in float32.
        self.trainer.clip_grad_norm = lambda *_: torch.tensor(1.0)
        self.gradients: list[torch.Tensor] = []

    def _note(self, optimizer, model, update_num) -> None:
        self.gradients = [
            torch.zeros_like(p) if p.grad is None else p.grad.clone()
            for p in self.trainer.get_model().parameters()
        ]

    def samples(self, lengths: list[list[tuple[int, int]]]) -> list[dict]:
        """Return batches of the given lengths. Sentence n is the same however they are divided."""
        generator, items = torch.Generator().manual_seed(7), []
        for number, (source, target) in enumerate(sum(lengths, [])):
            first = torch.randint(4, 24, (source,), generator=generator)
            second = torch.randint(4, 24, (target,), generator=generator)
            first[-1] = second[-1] = 2  # </s>
            items.append(self._item(number, first, second))
        collater = self.task.dataset("train").collater
        return [collater([items.pop(0) for _ in part]) for part in lengths]

    def _item(self, number: int, source: torch.Tensor, target: torch.Tensor) -> dict:
        if hasattr(self.task, "labels"):
            return {"id": number, "sentences": [source], "target": number % len(self.task.labels)}
        if self.task.source_dictionary is self.task.target_dictionary:  # a language model
            return {"id": number, "source": target.roll(1), "target": target}
        return {"id": number, "source": source, "target": target}

    def step(self, samples: list[dict]) -> tuple[list[torch.Tensor], dict]:
        """Return the gradients for the optimizer, and the logged values."""
        self.trainer.reset_dummy_batch(self.samples([[(4, 3), (2, 5)]])[0])
        self.trainer.set_num_updates(0)
        log = self.trainer.train_step(samples)
        return self.gradients, log

    def validate(self, *samples: dict) -> dict:
        """Return the logged values of a validation."""
        with metrics.aggregate(new_root=True) as aggregator:
            for sample in samples:
                self.trainer.valid_step(sample)
        return aggregator.get_smoothed_values()


def deviation(first: list, second: list) -> float:
    scale = max(float(x.abs().max()) for x in second)
    pairs = zip(first, second, strict=True)
    return max(float((x - y).abs().max()) for x, y in pairs) / scale


_TIMES = ("wall", "wps", "ups", "wpb", "bsz", "train_wall")  # and values that depend on the workers


def log_deviation(first: dict, second: dict) -> float:
    assert first.keys() == second.keys()
    names = [name for name in first if name not in _TIMES]
    assert {"loss"} <= set(names)
    return max(
        abs(float(first[n]) - float(second[n])) / max(abs(float(second[n])), 1e-9) for n in names
    )


def all_cases() -> list[tuple[str, str]]:
    """Return every run with every term."""
    translation = [run for run in RUNS if run.startswith("transformer") and "_lm_" not in run]
    return [
        *((run, term) for run in RUNS for term in TERMS),
        *((run, term) for run in translation for term in TARGET_TERMS),
    ]


def equals_the_joined_batch(outcome: Outcome) -> bool:
    """Return True if a step of several processes must equal one on the joined batch.

    A worker's term is weighted by its share of the sample size: target tokens, or examples in
    classification. So the mean over workers is the mean over all positions if the term is a mean
    over target positions, or if its positions are divided in the same proportion.
    """
    if outcome.term == "none":
        return True
    # HSIC and centred terms relate all positions of a batch to each other. A term that is added
    # once in a batch is added by every process.
    if outcome.term in ("hsic", "all", "centred", "summed-loss"):
        return False
    per_target = "_lm_" in outcome.run or outcome.term in TARGET_TERMS
    return per_target or outcome.batch == "balanced"


def check(outcomes: Sequence[Outcome]) -> None:
    """Assert that every outcome deviates from one process only as expected."""
    for outcome in outcomes:
        # Sums are computed in another order, and logged values are rounded.
        assert outcome.accumulated < 1e-12, outcome
        assert outcome.logged < 1e-6, outcome
        if equals_the_joined_batch(outcome):
            # fairseq computes the softmax of float64 scores in float32.
            assert outcome.joined < 1e-6, outcome
        elif outcome.batch == "uneven":
            assert outcome.joined > 1e-6, f"{outcome}: equals the joined batch, against the docs"
