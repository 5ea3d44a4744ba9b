"""Checkpoints without some heads, which ``prune`` writes: zeroed, or without their parameters."""

from typing import Any

import torch
from omegaconf import OmegaConf
from torch import nn

from diverse_mha.attention.sites import Head
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.ablation import sites_of
from diverse_mha.evaluation.models import Loaded, twin_of, twin_options
from diverse_mha.evaluation.outputs import MADE_BY
from diverse_mha.evaluation.states import forget_training, grouped, open_state
from diverse_mha.models.pruned_heads import keep_heads, pruned_text


def check_prunable(loaded: Loaded) -> None:
    """Raise ``UserError`` unless the model's aggregation is linear."""
    for site in sites_of(loaded.model):
        if not isinstance(site.attention.out_proj, nn.Linear):
            raise UserError(
                f"{loaded.path}: aggregates heads by {type(site.attention.out_proj).__name__} in "
                f"{site.component} layer {site.number}; prune needs linear aggregation everywhere"
            )


@torch.no_grad()
def zero_head(model: nn.Module, head: Head) -> None:
    """Zero a head's columns of the output projection."""
    (site,) = (site for site in sites_of(model) if site[:2] == head[:2])
    weight = site.attention.out_proj.get_parameter("weight")
    kept = site.attention.kept_heads
    weight.view(len(weight), len(kept), -1)[:, kept.index(head.head)] = 0


def zeroed_state(path: str, loaded: Loaded, heads: list[Head]) -> dict:
    """Return the pruned checkpoint, without optimizer state.

    Args:
        path: the original checkpoint.
        loaded: the model of this checkpoint, already pruned.
        heads: the pruned heads, to record in the checkpoint.
    """
    state = open_state(path, finite=True)
    names = {module: name for name, module in loaded.model.named_modules()}
    for site in sites_of(loaded.model):
        pruned = site.attention.out_proj.weight.cpu()
        state["model"][f"{names[site.attention.out_proj]}.weight"][pruned == 0] = 0
    return _record_pruned(state, heads)


def _record_pruned(state: dict, heads: list[Head]) -> dict:
    """Remove the training state from a pruned checkpoint, and record all pruned heads in it."""
    forget_training(state)
    before = state["extra_state"].get("pruned_heads", [])
    now = [text for text in map(str, heads) if text not in before]
    state["extra_state"] |= {MADE_BY: "prune", "pruned_heads": [*before, *now]}
    return state


def check_removable(loaded: Loaded) -> None:
    """Raise ``UserError`` if a method makes heads depend on each other."""
    for site in sites_of(loaded.model):
        if method := site.attention.tied_by:
            raise UserError(
                f"{loaded.path}: ", method, f" ties heads of {site.component} layer {site.number} "
                "to others; leave out --remove: then pruned heads are set to zero",
            )  # fmt: skip


def check_one_left(loaded: Loaded, heads: list[Head]) -> None:
    """Raise ``UserError`` if an attention module would have no head left."""
    for site in sites_of(loaded.model):
        if {*site.attention.kept_heads} <= {h.head for h in heads if h[:2] == site[:2]}:
            raise UserError(
                f"--remove: no head is left in {site.component} layer {site.number}; add --keep-one"
            )


def pruned_option(loaded: Loaded, heads: list[Head]) -> str:
    """Return the value of ``--pruned-heads`` for a model after the removal of ``heads``."""
    gone = [
        (*site[:2], head)
        for site in sites_of(loaded.model)
        for head in range(1, site.attention.all_heads + 1)
        if head not in site.attention.kept_heads or (*site[:2], head) in heads
    ]
    return pruned_text(gone)


def removed_state(path: str, loaded: Loaded, heads: list[Head]) -> dict:
    """Return the checkpoint without the parameters of some heads, and without optimizer state.

    The options of a stock model are replaced by those of our model with the same parameters.

    Args:
        path: the original checkpoint.
        loaded: the model of this checkpoint.
        heads: the heads to remove.
    """
    check_one_left(loaded, heads)
    state = grouped(path, open_state(path))
    config = {group: _plain(options) for group, options in state["cfg"].items()}
    if twin := twin_of(loaded.architecture):
        options = twin_options(twin, loaded.architecture, state["cfg"].model)
        config["model"] = vars(options) | {"_name": twin}
    config["model"]["pruned_heads"] = pruned_option(loaded, heads) or None
    state |= {"args": None, "cfg": config, "model": smaller(loaded, heads, state["model"])}
    return _record_pruned(state, heads)


def smaller(loaded: Loaded, heads: list[Head], saved: dict) -> dict:
    """Return a model's parameters without those of ``heads``, in the dtypes of ``saved``."""
    parameters = {
        name: x.cpu().to(saved.get(name, x).dtype) for name, x in loaded.model.state_dict().items()
    }
    names = {module: name for name, module in loaded.model.named_modules()}
    for site in sites_of(loaded.model):
        attention = site.attention
        left = [n for n in attention.kept_heads if Head(*site[:2], n) not in heads]
        places = tuple(attention.kept_heads.index(n) + 1 for n in left)
        for name, axis in attention.head_axes.items():
            name = f"{names[attention]}.{name}"
            if name in parameters:
                total = len(attention.kept_heads)
                parameters[name] = keep_heads(parameters[name], axis, places, total)
    return parameters


def _plain(options: Any) -> Any:
    is_config = OmegaConf.is_config(options)
    return OmegaConf.to_container(options, enum_to_str=True) if is_config else options
