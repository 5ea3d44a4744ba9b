"""Models without their pruned heads: the option that names them, and smaller parameters.

Heads keep their numbers: without head 2 a module of four has the heads 1, 3 and 4.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.options import option, split_list

#: Name of a parameter of fairseq's attention -> its dimension of H * D elements.
HEAD_AXES = {
    **{f"{x}_proj.{kind}": 0 for x in "qkv" for kind in ("weight", "bias")},
    "out_proj.weight": 1,
}
#: (component, layer) -> pruned heads; layers and heads are numbered from 1.
Pruned = dict[tuple[str, int], tuple[int, ...]]


@dataclass
class PrunedOptions:
    """The heads that a model lacks.

    ``prune --remove`` prints the value. Give it when you train such a checkpoint further; commands
    that only read the checkpoint find it there.
    """

    pruned_heads: str | None = option(
        None,
        "heads that the model lacks, by component as LAYER.HEAD, such as 'encoder 1.3 2.2, cross "
        "1.1'; prune --remove prints it; default: none",
    )


def read_pruned(value: str | None, shapes: Mapping[str, tuple[int, int]]) -> Pruned:
    """Parse ``--pruned-heads``.

    Args:
        value: such as ``encoder 1.3 2.2, cross 1.1``; None for none.
        shapes: number of layers and of heads of every component in the model.

    Raises:
        UserError: for heads that the full model lacks, or a layer without a head left.
    """
    pruned = defaultdict(set)
    for part in split_list(str(value)) if value is not None else ():
        component, *heads = part.split() or [""]
        if component not in shapes:
            raise UserError(
                Option("pruned_heads", value),
                f": the model has no component {component!r}; choose from {', '.join(shapes)}",
            )
        layers, most = shapes[component]
        for text in heads or [""]:
            numbers = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", text)
            layer, head = map(int, numbers.groups()) if numbers else (0, 0)
            if not (1 <= layer <= layers and 1 <= head <= most):
                raise UserError(
                    Option("pruned_heads", part),
                    f": the {component} has no head {text!r}; it has {layers} layers of {most} "
                    "heads; give LAYER.HEAD such as 1.1",
                )
            pruned[component, layer].add(head)
            if len(pruned[component, layer]) == most:
                raise UserError(
                    Option("pruned_heads", part),
                    f": no head is left in {component} layer {layer}; keep one",
                )
    return {module: tuple(sorted(heads)) for module, heads in pruned.items()}


def pruned_text(pruned: Iterable[tuple[str, int, int]]) -> str:
    """Return the value of ``--pruned-heads`` for (component, layer, head)."""
    by_component = defaultdict(list)
    for component, layer, head in pruned:
        by_component[component].append(f"{layer}.{head}")
    return ", ".join(" ".join([name, *heads]) for name, heads in by_component.items())


def keep_heads(parameter: Tensor, axis: int, kept: tuple[int, ...], total: int) -> Tensor:
    """Return a parameter's part for the ``kept`` heads (from 1) of ``total`` along ``axis``."""
    numbers = torch.tensor(kept, device=parameter.device) - 1
    return (
        parameter.unflatten(axis, (total, -1)).index_select(axis, numbers).flatten(axis, axis + 1)
    )


def spread_heads(parameter: Tensor, axis: int, kept: tuple[int, ...], total: int) -> Tensor:
    """Undo :func:`keep_heads`, with zeros for the heads that are missing."""
    parts = parameter.unflatten(axis, (len(kept), -1))
    shape = list(parts.shape)
    shape[axis] = total
    numbers = torch.tensor(kept, device=parameter.device) - 1
    return parts.new_zeros(shape).index_copy_(axis, numbers, parts).flatten(axis, axis + 1)


def shrink(module: nn.Module, axes: Mapping[str, int], kept: tuple[int, ...], total: int) -> None:
    """Keep only the ``kept`` heads of a new attention module, in place: shrink its parameters.

    ``axes`` maps names of parameters to their dimension of heads; ``total`` is the number of heads.
    """
    for name, axis in axes.items():
        owner = module.get_submodule(name.rpartition(".")[0])
        leaf = name.rpartition(".")[2]
        parameter = getattr(owner, leaf)
        if parameter is not None:
            setattr(owner, leaf, nn.Parameter(keep_heads(parameter.detach(), axis, kept, total)))
        if isinstance(owner, nn.Linear):
            owner.out_features, owner.in_features = owner.weight.shape


def fill_pruned(parameters: dict[str, Tensor], pruned: Pruned, options: Mapping) -> dict:
    """Return a stock model's parameters with zeros for its pruned heads.

    Args:
        parameters: the model's parameters, by fairseq's names.
        pruned: the heads without parameters.
        options: fairseq's options of the model.
    """
    filled = dict(parameters)
    for (component, layer), gone in pruned.items():
        side = "encoder" if component == "encoder" else "decoder"
        total = options[f"{side}_attention_heads"]
        kept = tuple(n for n in range(1, total + 1) if n not in gone)
        attention = "encoder_attn" if component == "cross" else "self_attn"
        for name, axis in HEAD_AXES.items():
            name = f"{side}.layers.{layer - 1}.{attention}.{name}"
            if name in filled:
                filled[name] = spread_heads(filled[name], axis, kept, total)
    return filled
