"""A checkpoint of ours as one of stock fairseq's: ``diverse-mha export --format fairseq``.

Parameters have fairseq's names already. What changes is the configuration: fairseq's own model
and task, every option filled in as fairseq would, and none of ours.
"""

from argparse import Namespace
from dataclasses import fields
from typing import Any

from fairseq.dataclass.utils import merge_with_parent
from fairseq.models import ARCH_CONFIG_REGISTRY, MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from omegaconf import OmegaConf

from diverse_mha.common.errors import UserError
from diverse_mha.common.options import flag
from diverse_mha.models.config import SEAMS, seam_options, to_namespace
from diverse_mha.models.language_model import DiverseLanguageModel
from diverse_mha.models.translation import DiverseTransformer

#: fairseq's model and task in the place of ours.
STOCK = {
    DiverseTransformer: ("transformer", "translation"),
    DiverseLanguageModel: ("transformer_lm", "language_modeling"),
}
# Options that generation and evaluation read; the rest belongs to training.
_GROUPS = ("common", "common_eval", "dataset", "generation", "interactive", "eval_lm")
_WIDTHS = ("decoder_input_dim", "decoder_output_dim")
_SHARING = ("share_all_embeddings", "share_decoder_input_output_embed")


def _stock_options(path: str, cfg: Any) -> tuple[dict, dict]:
    """Return the flat options of stock fairseq's model and task, ``_name`` among them."""
    name = str(getattr(cfg.model, "_name", None) or getattr(cfg.model, "arch", None))
    own = MODEL_REGISTRY.get(name, object)
    stock = next((names for model, names in STOCK.items() if issubclass(own, model)), None)
    if stock is None:
        raise UserError(
            f"{path}: a model of architecture {name!r}; exported are translation and language "
            "models of this package"
        )
    given = to_namespace(merge_with_parent(MODEL_DATACLASS_REGISTRY[name](), cfg.model, True))
    for seam in SEAMS:
        chosen = seam.read(given).method
        if not chosen.stock:
            stock_only = " or ".join(method.name for method in seam if method.stock)
            raise UserError(
                f"{path}: {flag(seam.name)} {chosen.name} exists in this package alone; "
                f"only models with {flag(seam.name)} {stock_only} can be exported"
            )
    ours = {"_name", "rebuild_batches", *(option.name for option in seam_options())}
    model, task = (
        {k: v for k, v in vars(to_namespace(x)).items() if k not in ours} for x in (given, cfg.task)
    )
    for width in _WIDTHS:
        # Without a value ours take that of the model; stock language models take 512.
        model.setdefault(width, model["decoder_embed_dim"])
    if model.get("adaptive_softmax_cutoff"):
        # The tables are in the checkpoint each by itself; told that they are one, fairseq adds an
        # output projection, which such a model has not, to what it loads.
        model |= {name: False for name in _SHARING if model.get(name)}
    filled = Namespace(**model)
    if stock[0] not in MODEL_DATACLASS_REGISTRY:
        ARCH_CONFIG_REGISTRY[stock[0]](filled)
    else:
        for f in fields(MODEL_DATACLASS_REGISTRY[stock[0]]):
            if str(f.default).startswith("${") and f.name not in model:
                # A reference, which nothing resolves where a model is loaded.
                setattr(filled, f.name, OmegaConf.select(cfg, f.default[2:-1]))
    return vars(filled) | {"_name": stock[0]}, task | {"_name": stock[1]}


def stock_state(path: str, state: dict, *, namespace: bool = False) -> dict:
    """Make a checkpoint of stock fairseq's out of one of ours, without any state of training.

    Args:
        path: the checkpoint, for messages.
        state: what it holds, as ``checkpoint_utils.load_checkpoint_to_cpu`` reads it.
        namespace: write the options as ``args``, the flat ``argparse.Namespace`` of fairseq's
            command line, which torch's safe loader refuses unless told otherwise, in the place
            of ``cfg``, plain dictionaries, which it loads anywhere.
    """
    model, task = _stock_options(path, state["cfg"])
    args = cfg = None
    if namespace:
        args = Namespace(**(task | model), arch=model["_name"], task=task["_name"])
        del args._name
    else:
        own = OmegaConf.to_container(state["cfg"], enum_to_str=True)
        cfg = {group: own[group] for group in _GROUPS if own.get(group)}
        cfg["common"]["user_dir"] = None
        # fairseq's hub interface wants the last two, be there any or not.
        cfg |= {"model": model, "task": task, "tokenizer": own.get("tokenizer")}
        cfg["bpe"] = own.get("bpe")
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    return {
        "args": args,
        "cfg": cfg,
        "model": state["model"],
        "optimizer_history": [history | {"num_updates": 0}],
        "task_state": {},
        "extra_state": {},
        "last_optimizer_state": None,
    }
