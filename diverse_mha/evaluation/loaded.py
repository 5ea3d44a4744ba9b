"""Loads checkpoints and a split of their data for analysis."""

from argparse import Namespace
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq import checkpoint_utils, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer_lm import TransformerLanguageModel
from torch import nn

import diverse_mha
from diverse_mha.attention import HeadStates
from diverse_mha.common.errors import OptionError, UserError
from diverse_mha.common.options import flag
from diverse_mha.common.places import check_data_folder
from diverse_mha.common.progress import shown
from diverse_mha.evaluation.checkpoints import fitting
from diverse_mha.fairseq_fixes.checkpoint_guard import options_explained
from diverse_mha.models.config import to_namespace
from diverse_mha.tasks.data_files import check_split, splits_in

# A model with the parameters of the stock one.
TWINS = {
    TransformerModel: "transformer_disagree",
    TransformerLanguageModel: "transformer_lm_disagree",
}


class Loaded(NamedTuple):
    """A loaded model, its task and data."""

    path: str
    architecture: str  # the name the checkpoint was trained under
    model: nn.Module  # at evaluation, on its device
    task: Any
    limit: Any = None  # lengths up to which sentences count, where it is less than the model reads

    def longest(self) -> Any:
        """Lengths up to which sentences count, as fairseq has them."""
        own = utils.resolve_max_positions(self.task.max_positions(), self.model.max_positions())
        return own if self.limit is None else self.limit

    def options(self) -> Any:
        """Return the task's options; a stock language model keeps them under the older name."""
        return getattr(self.task, "cfg", None) or self.task.args


def load(path: str, data: str, *, cpu: bool = False) -> Loaded:
    """Load a model and its task; a stock ``transformer`` or ``transformer_lm`` as its twin.

    torch's safe loader reads the checkpoint. ``data`` is the folder that fairseq-preprocess wrote;
    ``cpu`` stays on the CPU even if there is a GPU.
    """
    if not Path(path).is_file():
        raise UserError(f"{path}: no such checkpoint; give the .pt file that training wrote")
    if not (Path(data) / "input0").is_dir():  # a classifier's task checks its own
        check_data_folder(data)
    diverse_mha.register()
    state = checkpoint_utils.load_checkpoint_to_cpu(path, {"data": str(data)})
    if state.get("args") is not None:
        state["cfg"], state["args"] = convert_namespace_to_omegaconf(state["args"]), None
    cfg = state.get("cfg")
    if cfg is None or not state.get("model") or any(cfg.get(x) is None for x in ("model", "task")):
        raise UserError(f"{path}: holds no model with its options; give a training checkpoint")
    name = str(getattr(cfg.model, "_name", None) or getattr(cfg.model, "arch", None))
    found = ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)
    twin = TWINS.get(found)
    if twin is None and not getattr(found, "__module__", "").startswith("diverse_mha."):
        raise UserError(
            f"{path}: a model of architecture {name!r} does not show its heads; analyze reads "
            "those of this package and fairseq's own transformer and transformer_lm"
        )
    with fitting(path, data):
        if twin is None:
            (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([path], state=state)
        else:
            task = tasks.setup_task(cfg.task, from_checkpoint=True)
            if "task_state" in state:
                task.load_state_dict(state["task_state"])
            with options_explained(Exception):
                model = build_twin(twin, name, cfg.model, task)
            model.load_state_dict(state["model"], strict=True, model_cfg=cfg.model)
    model.eval()
    model = model.cuda() if torch.cuda.is_available() and not cpu else model
    return Loaded(path, name, model, task)


def build_twin(twin: str, name: str, options: Any, task: Any):
    """Build our model of the shape of a stock checkpoint, into which its parameters load.

    ``twin`` is one of ``TWINS``; ``name`` and ``options`` are the model's in the checkpoint.
    """
    known = to_namespace(options)
    if name in ARCH_CONFIG_REGISTRY:
        # Adds options that older versions did not save, as fairseq does.
        ARCH_CONFIG_REGISTRY[name](known)
    if not getattr(known, "decoder_normalize_before", False):
        known.no_decoder_final_norm = False  # without effect there, and ours refuses it
    kind = MODEL_REGISTRY[twin]
    filled = {**vars(to_namespace(kind.config())), **vars(known)}
    return kind.build_model(Namespace(**filled), task)


def check_same_blocks(models: list[Loaded]) -> None:
    """Raise an error unless language models read the same blocks of a text."""
    cut = [x for x in models if getattr(x.options(), "tokens_per_sample", None) is not None]
    for name in ("tokens_per_sample", "sample_break_mode", "add_bos_token"):
        values = [getattr(loaded.options(), name, None) or "none" for loaded in cut]
        for loaded, value in zip(cut, values, strict=True):
            if value != values[0]:
                raise UserError(
                    f"{loaded.path}: trained with {flag(name)} {value}, {cut[0].path} with "
                    f"{values[0]}: they read other positions of a text; analyze them one by one"
                )


def batches_of(loaded: Loaded, subset: str, max_tokens: int) -> Sized:
    """Return the batches of a split, once through, sentences of similar length together."""
    task, folder = loaded.task, loaded.options().data
    check_split(folder, subset)
    try:
        task.load_dataset(subset)
    except OptionError as error:
        raise UserError(f"--subset {subset}: {error}") from error
    except FileNotFoundError as error:
        there = splits_in(folder)
        raise UserError(f"--subset {subset}: not in {folder}; there: {there}") from error
    try:
        batches = task.get_batch_iterator(
            task.dataset(subset),
            max_tokens=max_tokens,
            max_positions=loaded.longest(),
            ignore_invalid_inputs=True,
        ).next_epoch_itr(shuffle=False)
    except AssertionError as error:  # fairseq's, of a sentence that no batch can hold
        raise UserError(f"--max-tokens {max_tokens}: {error}; give more") from error
    if not len(batches):
        raise UserError(f"--subset {subset}: holds no sentence that fits the model")
    return batches


def on_device(loaded: Loaded, batches: Iterable[dict]) -> Iterator[dict]:
    """Yield batches on the model's device, without empty ones."""
    device = next(loaded.model.parameters()).device
    for sample in batches:
        if sample:
            yield utils.move_to_cuda(sample, device) if device.type == "cuda" else sample


def iterate_batches(
    loaded: Loaded, subset: str, *, max_tokens: int = 4000, label: str = ""
) -> Iterator[dict]:
    """Go through a split once, sentences of similar length together.

    Progress is shown with ``label`` and the name of the split, if there is a label.

    Yields:
        fairseq's batches, on the model's device.
    """
    batches = batches_of(loaded, subset, max_tokens)
    yield from on_device(
        loaded, shown(batches, f"{label} {subset}", "batches") if label else batches
    )


@torch.no_grad()
def head_states(
    model: nn.Module, sample: dict, wanted: tuple[str, ...]
) -> dict[str, list[HeadStates]]:
    """Run a batch through a model; the states named in ``wanted``, by component and layer."""
    return model(**sample["net_input"], return_head_states=wanted)[1]["head_states"]
