"""Removes heads from a model and its checkpoint."""

import argparse
import math
import random
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn

from diverse_mha.analysis.ablation import run_model, sites_of
from diverse_mha.analysis.collect import HeadsMeter, Selection
from diverse_mha.analysis.importance import ABLATION, GRADIENT, measure_importance
from diverse_mha.analysis.losses import sentence_losses
from diverse_mha.common.errors import UserError
from diverse_mha.common.outputs import MADE_BY
from diverse_mha.evaluation.checkpoints import forget_training, load_checkpoint
from diverse_mha.evaluation.loaded import Loaded, head_states, iterate_batches, load

RANKINGS = {
    "importance": "least rise of the loss first",
    "gradient": "smallest gradient of a gate first",
    "similarity": "the less important head of the most similar pair in a layer (CKA)",
    "random": "drawn with --seed",
}


class Head(NamedTuple):
    """A head of a model."""

    component: str
    layer: int  # from 1
    head: int  # from 1

    def __str__(self) -> str:
        return f"{self.component} {self.layer}.{self.head}"


def load_prunable(path: str, data: str, *, cpu: bool) -> Loaded:
    """Load a model; raises an error unless its aggregation is linear."""
    loaded = load(path, data, cpu=cpu)
    for site in sites_of(loaded.model):
        if not isinstance(site.attention.out_proj, nn.Linear):
            raise UserError(
                f"{loaded.path}: aggregates heads by {type(site.attention.out_proj).__name__} in "
                f"{site.component} layer {site.number}; prune needs linear aggregation everywhere"
            )
    return loaded


def count_of(model: nn.Module, given: str, count: int | float, *, keep_one: bool) -> int:
    """Return how many heads a number or a share of them is.

    Args:
        model: the model.
        given: the option, for messages.
        count: a number of heads (int), or a share of all (float).
        keep_one: a head of every module must stay.
    """
    total = len(heads_in(model))
    most = total - (len(sites_of(model)) if keep_one else 0)
    count = round(count * total) if isinstance(count, float) else count
    if count > most:
        beside = " with --keep-one" if keep_one else ""
        raise UserError(f"{given}: {count} of {total} heads; at most {most} can go{beside}")
    return count


def heads_in(model: nn.Module) -> list[Head]:
    """Return all heads of a model."""
    return [
        Head(site.component, site.number, head)
        for site in sites_of(model)
        for head in range(1, site.attention.num_heads + 1)
    ]


@torch.no_grad()
def remove_head(model: nn.Module, head: Head) -> None:
    """Zero a head's columns of the output projection."""
    (site,) = (site for site in sites_of(model) if site[:2] == head[:2])
    weight = site.attention.out_proj.weight
    weight.view(len(weight), site.attention.num_heads, -1)[:, head.head - 1] = 0


def removals(
    loaded: Loaded, count: int, args: argparse.Namespace, label: str = ""
) -> Iterator[Head]:
    """Remove heads from a model one by one, the least important first.

    Args:
        loaded: the model, whose parameters change.
        count: how many heads.
        args: options of ``prune``. The rest is ranked anew ``steps`` times in all.
        label: what to call the model in the progress bar.

    Yields:
        Each head once it is removed.
    """
    left = heads_in(loaded.model)
    for step in range(args.steps):
        portion = count * (step + 1) // args.steps - count * step // args.steps
        if not portion:
            continue
        values, pairs = _rank(loaded, left, args, label)
        for _ in range(portion):
            head = _next(left, values, pairs, args.keep_one)
            left.remove(head)
            remove_head(loaded.model, head)
            yield head


def _rank(
    loaded: Loaded, left: list[Head], args: argparse.Namespace, label: str
) -> tuple[dict[Head, float], dict[tuple[Head, Head], float]]:
    """Return a value of every head, and the similarity of pairs if it decides."""
    if args.by == "random":
        draw = random.Random(1 if args.seed is None else args.seed).random
        return {head: draw() for head in heads_in(loaded.model)}, {}
    measure = GRADIENT if args.by == "gradient" else ABLATION
    selection = Selection(measures=(measure,), subset=args.subset, max_tokens=args.max_tokens)
    found = measure_importance(loaded, selection, label)["modules"]
    values = {h: found[h.component][str(h.layer)][measure]["heads"][h.head - 1] for h in left}
    return values, _similar(loaded, selection, label) if args.by == "similarity" else {}


def _similar(loaded: Loaded, selection: Selection, label: str) -> dict[tuple[Head, Head], float]:
    meter = HeadsMeter(selection._replace(measures=("cka",)))
    batches = iterate_batches(
        loaded, selection.subset, max_tokens=selection.max_tokens, label=label
    )
    for sample in batches:
        meter.update(head_states(loaded.model, sample, ("outputs",)))
    return {
        (Head(component, int(number), i + 1), Head(component, int(number), j + 1)): value
        for component, entry in meter.result()["components"].items()
        for number, layer in entry["layers"].items()
        for i, row in enumerate(layer["cka"]["pairs"] if layer["cka"] else ())
        for j, value in enumerate(row)
        if i < j
    }


def _next(
    left: list[Head], values: dict[Head, float], pairs: dict[tuple, float], keep_one: bool
) -> Head:
    """Choose the next head to remove; without pairs, the least important one."""
    there = [(one, two) for one, two in pairs if one in left and two in left]
    if there:
        return min(max(there, key=pairs.__getitem__), key=values.__getitem__)
    modules = [head[:2] for head in left]
    free = [head for head in left if not keep_one or modules.count(head[:2]) > 1]
    return min(free, key=values.__getitem__)


@torch.no_grad()
def token_loss(loaded: Loaded, subset: str, max_tokens: int, label: str) -> float:
    """Return the loss over a split, in bits a token, with a progress bar of that label."""
    total = count = 0.0
    for sample in iterate_batches(loaded, subset, max_tokens=max_tokens, label=label):
        found = run_model(loaded.model, sample)
        losses, counts = sentence_losses(loaded.model, sample, found)
        total, count = total + float(losses.sum()), count + float(counts.sum())
    return total / count / math.log(2)


def pruned_state(path: str, loaded: Loaded, heads: list[Head]) -> dict:
    """Return a checkpoint without some heads and without its optimizer's state.

    Args:
        path: the checkpoint.
        loaded: its model, from which the heads are removed.
        heads: these heads.
    """
    state = load_checkpoint(path)
    names = {module: name for name, module in loaded.model.named_modules()}
    for site in sites_of(loaded.model):
        pruned = site.attention.out_proj.weight.cpu()
        state["model"][f"{names[site.attention.out_proj]}.weight"][pruned == 0] = 0
    forget_training(state)
    state["extra_state"][MADE_BY] = "prune"
    state["extra_state"]["pruned_heads"] = list(map(str, heads))
    return state
