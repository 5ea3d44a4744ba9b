"""The attention function that a model of transformers calls while ``HeadTerms`` act on it.

This function calls the attention function that the model's config names, or the model's own eager
attention if a term needs weights or logits. It records head states, and drops heads in training.

Models may share a config object, as a student and its teacher do. So configs stay unchanged: each
attention module with terms gets a view of its config, which alone names this function.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from diverse_mha.attention import HeadStates
from diverse_mha.common.errors import UserError
from diverse_mha.hub.states import Recorder

NAME = "diverse_mha"  # name of :func:`attend` in transformers' registry
_CROSS = re.compile(r"cross_?att|encoder_attn|encdecatt", re.IGNORECASE)
EXPLICIT = {"weights", "logits"}  # states that the fused kernel does not return
_BASES = ("sdpa", "eager")
#: Model types that call an attention function only since a later version of transformers than 5.0.
SINCE = {
    "modernbert": "5.1", "nemotron": "5.13", "t5": "5.15", "mt5": "5.15", "umt5": "5.15",
    "longt5": "5.15", "switch_transformers": "5.15", "gptj": "5.24", "codegen": "5.24",
}  # fmt: skip


class Site(NamedTuple):
    """Settings of :func:`attend` for one attention module."""

    recorder: Recorder
    component: str
    eager: Callable[..., Any]  # the model's own eager attention function
    drophead: nn.Module | None


class ConfigView:
    """An attention module's view of its config: names :func:`attend`; all else is the config's.

    A copy of a view, also by pickle, is a copy of the config.
    """

    _attn_implementation = NAME
    _config: Any
    _site: Site

    def __init__(self, config: Any, site: Site):
        self.__dict__.update(_config=config, _site=site)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_config"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._config, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self._config,)


def _itself(config: Any) -> Any:
    return config


def config_of(module: nn.Module) -> Any:
    """Return an attention module's config; torch's types know no attributes but modules."""
    return module.config


def has_terms(module: nn.Module) -> bool:
    """Return True if an attention module calls :func:`attend`."""
    return isinstance(getattr(module, "config", None), ConfigView)


def attach(module: nn.Module, site: Site) -> None:
    """Let an attention module call :func:`attend`."""
    object.__setattr__(module, "config", ConfigView(config_of(module), site))


def detach(module: nn.Module) -> None:
    """Undo :func:`attach`."""
    object.__setattr__(module, "config", config_of(module)._config)


def implementation(kind: str, config: Any) -> str:
    """Return the attention function that a config names; ``kind`` is for messages."""
    name = config._attn_implementation or "eager"  # as transformers read None
    if name not in _BASES:
        raise UserError(
            f"{kind}: attn_implementation {name!r} is not supported; load the model with "
            "attn_implementation='sdpa'"
        )
    return name


def not_observable(model: nn.Module, advice: str) -> str:
    """Return why the attention of a model calls no attention function, and what to do."""
    kind, config = type(model).__name__, getattr(model, "config", None)
    since = SINCE.get(getattr(config, "model_type", ""))
    if since is None:
        return f"{kind} has attention code of its own; {advice}"
    return f"{kind} needs transformers {since} or newer; this is {transformers.__version__}"


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend as the model does without terms; record head states and drop heads.

    The ``Site`` of the module holds the settings for both.

    Args:
        module: the attention module that calls this function.
        query: (B, H, T, D).
        key: (B, G, S, D), with G groups of H / G heads.
        value: (B, G, S, D).
        attention_mask: (B, 1 or H, T, S); bool with True = may attend, or added to the logits.
        dropout: probability of zeroing a weight.
        options: further arguments of the model, such as ``scaling`` or ``softcap``.

    Returns:
        Outputs (B, T, H, D), and weights (B, H, T, S) if they were computed.
    """
    view: ConfigView = config_of(module)
    site, config = view._site, view._config
    if module.training and getattr(module, "_is_replica", False):
        raise UserError(
            "HeadTerms: nn.DataParallel is not supported in training; start one process per GPU "
            "with torchrun --nproc-per-node"
        )
    base = implementation(type(module).__name__, config)
    # Activation checkpointing calls this function again after the batch was recorded. The second
    # call must compute the same tensors as the first.
    recorder = site.recorder
    wanted: tuple[str, ...] = ()
    if module.training or recorder.batch is not None:
        wanted = recorder.wanted.get(site.component, ())
    if not EXPLICIT.isdisjoint(wanted):
        mask = attention_mask
        if base != "eager":
            mask = _additive(mask, module, query, key, options.get("is_causal"))
        # Only weights are needed here; outputs are computed after dropout. Without ``scaling``, the
        # formula may read the size of a head from the values, as GPT-2's in transformers 5.0 does.
        narrow = value if options.get("scaling") is None else value[..., :1]
        _, weights = site.eager(module, query, key, narrow, mask, dropout=0.0, **options)
        kept = F.dropout(weights, dropout, module.training)
        output = (kept @ _repeated(value, query)).transpose(1, 2)
    else:
        attention = site.eager if base == "eager" else sdpa_attention_forward
        output, weights = attention(
            module, query, key, value, attention_mask, dropout=dropout, **options
        )
    if recorder.batch is not None:
        make = {
            "queries": lambda: query,
            "keys": lambda: _repeated(key, query),
            "values": lambda: _repeated(value, query),
            "logits": lambda: _logits(query, key, options.get("scaling")),
            "weights": lambda: weights,
            "outputs": lambda: output.transpose(1, 2),
        }
        states = HeadStates(**{name: make[name]() for name in wanted})
        size = (query.size(0), query.size(2), key.size(2))
        recorder.batch.add(site.component, states, attention_mask, size, module)
    if (change := recorder.changes.get(module)) is not None:
        output = change(output)
    if site.drophead is not None and module.training:
        output = site.drophead(output.transpose(1, 2)).transpose(1, 2)
    return output, weights


def _repeated(x: Tensor, query: Tensor) -> Tensor:
    """Repeat grouped keys or values for each of the query's heads."""
    return repeat_kv(x, query.size(1) // x.size(1))


def _logits(query: Tensor, key: Tensor, scaling: float | None) -> Tensor:
    factor: float = query.size(-1) ** -0.5 if scaling is None else scaling
    return query @ _repeated(key, query).transpose(2, 3) * factor


def _additive(
    mask: Tensor | None, module: nn.Module, query: Tensor, key: Tensor, causal: bool | None
) -> Tensor | None:
    """Turn a mask of the fused kernel into the additive mask that eager attention takes."""
    if mask is None:
        causal = getattr(module, "is_causal", True) if causal is None else causal
        if not causal or query.size(2) == 1:
            return None
        shape = query.size(2), key.size(2)
        mask = torch.ones(shape, dtype=torch.bool, device=query.device).tril()[None, None]
    if mask.dtype != torch.bool:
        return mask
    # The value must be finite in float32 too: some models compute the softmax of float64 logits in
    # float32.
    lowest = max(torch.finfo(query.dtype).min, torch.finfo(torch.float32).min)
    return torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, lowest)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, sdpa_mask)


def no_eager(module: nn.Module, *_: Any, **__: Any) -> NoReturn:
    """Stand in for the eager attention of a module that has none."""
    raise UserError(
        f"{type(module).__name__}: has no eager attention; load the model with "
        "attn_implementation='sdpa'"
    )


class AttentionModule(NamedTuple):
    """A module that calls the attention function that its config names."""

    name: str
    module: nn.Module
    component: str
    eager: Callable | None


def attention_modules(model: nn.Module) -> Iterator[AttentionModule]:
    """Yield the modules whose attention function can be set."""
    for name, module in model.named_modules():
        forward = inspect.unwrap(type(module).forward)
        names = getattr(getattr(forward, "__code__", None), "co_names", ())
        reads = {"get_interface", "_attn_implementation"}  # transformers 5.0 reads the latter
        if "ALL_ATTENTION_FUNCTIONS" in names and not reads.isdisjoint(names):
            formulas = [n for n in names if n.endswith("eager_attention_forward")]
            eager = forward.__globals__.get(formulas[0]) if formulas else None
            yield AttentionModule(name, module, _component(name, module), eager)


def _component(name: str, module: nn.Module) -> str:
    """Return the module's component: ``encoder``, ``cross`` or ``decoder``."""
    if _CROSS.search(f"{name} {type(module).__name__}"):
        return "cross"
    if getattr(module, "is_cross_attention", False):
        return "cross"
    causal = getattr(module, "is_causal", False)
    return "decoder" if causal or "decoder" in name.split(".") else "encoder"


def head_count(module: nn.Module) -> int:
    """Return the number of query heads of an attention module, 0 if unknown."""
    for owner in (module, getattr(module, "config", None)):
        for name in ("num_heads", "num_attention_heads", "n_heads"):
            count = getattr(owner, name, None)
            if isinstance(count, int):
                return count
    return 0
