"""Converts our checkpoint to stock fairseq's form, for ``export`` and CTranslate2's converter.

Parameters already have fairseq's names; a linear method is multiplied into the projections. Pruned
heads become zeros, because fairseq has the same number of heads in every layer. The configuration
becomes fairseq's model and task, with all of fairseq's options and none of ours.
"""

import re
from argparse import Namespace
from collections.abc import Callable
from dataclasses import fields
from typing import Any, cast

from fairseq.dataclass.utils import merge_with_parent
from fairseq.models import ARCH_CONFIG_REGISTRY, MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from diverse_mha.common.errors import Option, UserError
from diverse_mha.fairseq_fixes.dictionaries import KEY, recorded
from diverse_mha.models.config import SEAMS, seam_options, to_namespace
from diverse_mha.models.language_model import DiverseLanguageModel
from diverse_mha.models.parts import SIDES
from diverse_mha.models.pruned_heads import Pruned, fill_pruned, read_pruned
from diverse_mha.models.translation import DiverseTransformer

#: Our model class -> fairseq's model and task.
STOCK = {
    DiverseTransformer: ("transformer", "translation"),
    DiverseLanguageModel: ("transformer_lm", "language_modeling"),
}
# Option groups of generation and evaluation; the others are for training.
_GROUPS = ("common", "common_eval", "dataset", "generation", "interactive", "eval_lm")
_WIDTHS = ("decoder_input_dim", "decoder_output_dim")
_SHARING = ("share_all_embeddings", "share_decoder_input_output_embed")


def _stock_options(path: str, cfg: Any) -> tuple[dict, dict, list[Callable[[dict], None]]]:
    """Return the flat options of stock fairseq's model and task, with ``_name``, and the folds.

    A fold is a function that turns an attention module's parameters into those of a stock module;
    see ``Method.fold``.
    """
    name = str(getattr(cfg.model, "_name", None) or getattr(cfg.model, "arch", None))
    model_class = MODEL_REGISTRY.get(name, object)
    stock = next((names for model, names in STOCK.items() if issubclass(model_class, model)), None)
    if stock is None:
        raise UserError(
            f"{path}: architecture {name!r} cannot be exported; only translation and language "
            "models of this package can"
        )
    try:
        merged = merge_with_parent(MODEL_DATACLASS_REGISTRY[name](), cfg.model, True)
    except OmegaConfBaseException as error:
        option = str(error.full_key)
        raise UserError(
            f"{path}: ", Option(option, cfg.model.get(option)),
            ": cannot be read; a method of your own needs ", Option("user_dir"),
        ) from error  # fmt: skip
    options = to_namespace(merged)
    if options.attention_samples:
        raise UserError(
            f"{path}: ", Option("attention_samples", options.attention_samples),
            " exists in this package alone; only models that use the mean of the logits can be "
            "exported",
        )  # fmt: skip
    folds = []
    for seam in SEAMS:
        chosen = seam.read(options).method
        if chosen.fold is not None:
            folds.append(chosen.fold)
        elif not chosen.stock:
            first, *others = (m.name for m in seam if m.stock or m.fold is not None)
            raise UserError(
                f"{path}: ", Option(seam.name, chosen.name), " exists in this package alone; only "
                "models with ", Option(seam.name, first), *(f" or {name}" for name in others),
                " can be exported",
            )  # fmt: skip
    ours = {"_name", "rebuild_batches", "allow_other_dictionary"}
    ours |= {option.name for option in seam_options()}
    model, task = (
        {k: v for k, v in vars(to_namespace(x)).items() if k not in ours}
        for x in (options, cfg.task)
    )
    for width in _WIDTHS:
        # If a width is not set, our models use the embedding width, but stock language models 512.
        model.setdefault(width, model["decoder_embed_dim"])
    if model.get("adaptive_softmax_cutoff"):
        # The embeddings are saved separately. If the sharing option were set, fairseq would expect
        # an output projection, which a model with adaptive softmax lacks.
        model |= {name: False for name in _SHARING if model.get(name)}
    filled = Namespace(**model)
    if stock[0] not in MODEL_DATACLASS_REGISTRY:
        ARCH_CONFIG_REGISTRY[stock[0]](filled)
    else:
        for f in fields(MODEL_DATACLASS_REGISTRY[stock[0]]):
            if str(f.default).startswith("${") and f.name not in model:
                # An interpolation, which is not resolved when a model is loaded.
                setattr(filled, f.name, OmegaConf.select(cfg, str(f.default)[2:-1]))
    return vars(filled) | {"_name": stock[0]}, task | {"_name": stock[1]}, folds


def pruned_heads(cfg: Any) -> Pruned:
    """Return the heads that a checkpoint's model lacks, from its options."""
    options = to_namespace(cfg.model)
    shapes = {
        component: tuple(getattr(options, f"{side}_{x}") for x in ("layers", "attention_heads"))
        for component, side in SIDES.items()
        if hasattr(options, f"{side}_layers")
    }
    return read_pruned(getattr(options, "pruned_heads", None), shapes)


def _folded(parameters: dict, folds: list[Callable[[dict], None]]) -> dict:
    """Return a model's parameters with those of the methods folded into the projections."""
    if not folds:
        return parameters
    modules: dict[str, dict] = {}
    for name, value in parameters.items():
        attention = re.match(r".*attn\.", name)
        prefix = attention[0] if attention else ""
        modules.setdefault(prefix, {})[name.removeprefix(prefix)] = value
    for own in modules.values():
        for fold in folds:
            fold(own)
    return {prefix + name: x for prefix, own in modules.items() for name, x in own.items()}


def stock_state(path: str, state: dict, *, namespace: bool = False) -> dict:
    """Return the checkpoint in stock fairseq's form, without training state.

    Args:
        path: the checkpoint, for messages.
        state: the checkpoint's contents, from ``checkpoint_utils.load_checkpoint_to_cpu``.
        namespace: write the options as fairseq's flat ``args`` (``argparse.Namespace``), which
            torch's safe loader rejects by default, instead of ``cfg`` (plain dictionaries).
    """
    model, task, folds = _stock_options(path, state["cfg"])
    args = cfg = None
    if namespace:
        args = Namespace(**(task | model), arch=model["_name"], task=task["_name"])
        del vars(args)["_name"]
    else:
        container = OmegaConf.to_container(state["cfg"], enum_to_str=True)
        config = cast("dict[str, Any]", container)
        cfg = {group: config[group] for group in _GROUPS if config.get(group)}
        cfg["common"]["user_dir"] = None
        # fairseq's hub interface requires tokenizer and bpe, even if they are None.
        cfg |= {"model": model, "task": task, "tokenizer": config.get("tokenizer")}
        cfg["bpe"] = config.get("bpe")
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    pruned, parameters = pruned_heads(state["cfg"]), _folded(state["model"], folds)
    return {
        "args": args,
        "cfg": cfg,
        "model": fill_pruned(parameters, pruned, model),
        "optimizer_history": [history | {"num_updates": 0}],
        "task_state": {},
        "extra_state": {KEY: record} if (record := recorded(state)) else {},
        "last_optimizer_state": None,
    }
