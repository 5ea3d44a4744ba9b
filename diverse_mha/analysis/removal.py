"""Makes checkpoints without the parameters of pruned heads (``prune --remove``)."""

from typing import Any

from omegaconf import OmegaConf

from diverse_mha.analysis.ablation import sites_of
from diverse_mha.analysis.pruning import Head, record_pruned
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.models import Loaded, twin_of, twin_options
from diverse_mha.evaluation.states import grouped, open_state
from diverse_mha.models.pruned_heads import keep_heads, pruned_text


def check_removable(loaded: Loaded) -> None:
    """Raise ``UserError`` if a method makes heads depend on each other."""
    for site in sites_of(loaded.model):
        if method := site.attention.tied_by:
            raise UserError(
                f"{loaded.path}: {method} ties heads of {site.component} layer {site.number} to "
                "others; leave out --remove: then pruned heads are set to zero"
            )


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
    return record_pruned(state, heads)


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
