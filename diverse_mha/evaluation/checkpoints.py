"""Reads, checks and writes checkpoints; loads a model with its task; iterates over a split."""

import copy
import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq import checkpoint_utils, tasks, utils
from fairseq.data import data_utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer_lm import TransformerLanguageModel
from torch import Tensor, nn

import diverse_mha
from diverse_mha.attention import HeadStates, Wanted
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import atomic_file, check_checkpoint, check_data_folder
from diverse_mha.common.options import flag
from diverse_mha.common.outputs import MADE_BY
from diverse_mha.common.processes import ended_in_order
from diverse_mha.common.progress import with_progress
from diverse_mha.fairseq_fixes.checkpoints import (
    BUILDING_ERRORS,
    LOADING_ERRORS,
    check_finite,
    checkpoint_error,
    hydras_warnings_hidden,
    options_explained,
    reading,
    refusals_named,
)
from diverse_mha.fairseq_fixes.dictionaries import check_dictionaries, recorded
from diverse_mha.models.config import to_namespace
from diverse_mha.tasks.data_files import check_split, dictionaries_named, splits_in

#: Part of a task's name -> the command that scores its models.
SCORERS = {
    "translation": "diverse-mha evaluate",
    "language_modeling": "diverse-mha evaluate-lm",
    "sentence_classification": "diverse-mha evaluate-classifier",
}
_BOTH_SIDES = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}


def load_checkpoint(path: str | Path, *, mmap: bool = False) -> dict:
    """Return a fairseq checkpoint on the CPU; with ``mmap``, tensors are read only when used."""
    path = Path(path)
    check_checkpoint(path)
    mmap = mmap and zipfile.is_zipfile(path)  # files of torch 1.5 or older cannot be mapped
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except LOADING_ERRORS as error:
        raise checkpoint_error(str(path), error) from None
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not all(torch.is_tensor(x) for x in model.values()):
        raise UserError(
            f"{path}: is not a fairseq checkpoint (no 'model' with tensors); give a file that "
            "fairseq-train wrote"
        )
    if not mmap:
        check_finite(str(path), model)
    return state


def load_state(path: str) -> dict:
    """Load a checkpoint with its options as configuration groups (``cfg``)."""
    diverse_mha.register()
    load_checkpoint(path, mmap=True)
    state = checkpoint_utils.load_checkpoint_to_cpu(path)
    cfg = state.get("cfg")
    if cfg is None or cfg.get("model") is None or cfg.get("task") is None:
        raise UserError(f"{path}: has no options; give a checkpoint written by fairseq-train")
    return state


def save_checkpoint(state: dict, output: str | Path) -> None:
    """Write a checkpoint atomically."""
    output = Path(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    with ended_in_order(), refusals_named(str(output)), atomic_file(output) as file:
        torch.save(state, file)


def written_by(command: str) -> Callable[[Path], bool]:
    """Return a predicate that is True for checkpoints that ``command`` wrote."""

    def is_own(path: Path) -> bool:
        try:
            state = load_checkpoint(path, mmap=True)
        except UserError:
            return False
        return (state.get("extra_state") or {}).get(MADE_BY) == command

    return is_own


def forget_training(state: dict) -> None:
    """Remove training state that does not fit changed parameters: optimizer, float32 copy, EMA."""
    state["last_optimizer_state"] = None  # fairseq then starts a fresh optimizer
    state["task_state"] = {}
    state["extra_state"] = {
        name: value
        for name, value in (state.get("extra_state") or {}).items()
        if not name.startswith("ema")
        and not (isinstance(value, dict) and value.keys() & {"fp32_params", "scaler"})
    }


def settings(state: dict, group: str = "task") -> dict:
    """Return the options of a group, or all options if an old checkpoint has no groups."""
    if state.get("cfg") is not None:
        options = state["cfg"].get(group) or {}
        # Models without a dataclass, such as fairseq's LSTM, keep a Namespace.
        return dict(vars(options) if isinstance(options, Namespace) else options)
    options = vars(state["args"]) if state.get("args") is not None else {}
    return {"_name": options.get(group)} | options


def updates_of(state: dict) -> int | None:
    """Return the number of updates of a checkpoint, or None if it is not recorded."""
    return (state.get("optimizer_history") or [{}])[-1].get("num_updates")


def check_task(checkpoint: str | Path, state: dict, wanted: str) -> dict:
    """Return the task's options. Raise an error if the task's name does not contain ``wanted``."""
    task = settings(state)
    if wanted not in str(task.get("_name")):
        raise UserError(
            f"{checkpoint}: trained on the task {task.get('_name')}, not {wanted}; use "
            f"{_scorer(task)}"
        )
    return task


def _scorer(task: dict) -> str:
    """Return the command that scores the models of a task; all commands if the task is another."""
    found = (command for part, command in SCORERS.items() if part in str(task.get("_name")))
    return next(found, ", ".join(SCORERS.values()))


def check_translates(checkpoint: str) -> None:
    """Raise an error unless a checkpoint is a translation model with options."""
    state = load_checkpoint(checkpoint, mmap=True)
    if not _BOTH_SIDES <= state["model"].keys():
        task = settings(state)
        trained = f"trained on the task {task.get('_name')}"
        raise UserError(
            f"{checkpoint}: is not a translation model ({trained}); give one, or use "
            f"{_scorer(task)}"
        )
    if state.get("cfg") is None and state.get("args") is None:
        raise UserError(f"{checkpoint}: has no options; give a checkpoint written by fairseq-train")


def languages_of(checkpoint: str, data: str | Path) -> tuple[str, str]:
    """Return source and target language as named in a checkpoint, or else in the data."""
    task = settings(load_checkpoint(checkpoint, mmap=True))
    named = task.get("source_lang"), task.get("target_lang")
    return named if all(named) else data_utils.infer_language_pair(str(data))


@contextmanager
def fitting(checkpoint: str | Path, data: str | Path) -> Iterator[None]:
    """Context manager: report in one line if the model in its block does not fit the data."""
    try:
        with dictionaries_named(data):
            yield
    except UserError:
        raise
    except Exception as error:
        lines = str(error).splitlines() or ["no such dictionary"]
        if not isinstance(error, AssertionError | FileNotFoundError) and not lines[0].startswith(
            ("Error(s) in loading state_dict", "Could not infer language pair")
        ):
            raise
        why = " ".join(line.strip() for line in lines[:2])[:200]
        raise UserError(
            f"{data}: does not fit {checkpoint} ({why}); give the data that the model was trained "
            "on, or a complete checkpoint"
        ) from error


def check_data(checkpoint: str, state: dict, data: str | Path) -> bool:
    """Raise an error unless a data folder has the dictionaries of a model. The model is not built.

    Args:
        checkpoint: the checkpoint, for messages.
        state: its content, from :func:`load_state`.
        data: the data folder.

    Returns:
        As :func:`check_dictionaries`.
    """
    options = copy.deepcopy(state["cfg"].task)
    options.data = str(data)
    with fitting(checkpoint, data):
        task = tasks.setup_task(options, from_checkpoint=True)
    return check_dictionaries(checkpoint, recorded(state), task)


# fairseq's model -> our model with the same parameters.
TWINS = {
    TransformerModel: "transformer_disagree",
    TransformerLanguageModel: "transformer_lm_disagree",
}


class Loaded(NamedTuple):
    """A loaded model, its task and data."""

    path: str
    architecture: str  # name of the architecture in the checkpoint
    model: nn.Module  # in evaluation mode, on its device
    task: Any
    limit: Any = None  # maximum sentence lengths; None: the model's own

    def longest(self) -> Any:
        """Return the maximum sentence lengths, in fairseq's form."""
        limit = utils.resolve_max_positions(self.task.max_positions(), self.model.max_positions())
        return limit if self.limit is None else self.limit

    def options(self) -> Any:
        """Return the task's options; fairseq's language modelling task keeps them in ``args``."""
        return getattr(self.task, "cfg", None) or self.task.args


def read_state(path: str, overrides: dict | None = None) -> dict:
    """Return a checkpoint as fairseq loads it, with options in ``cfg`` even if saved as ``args``.

    ``overrides`` holds options that replace saved values.
    """
    state = checkpoint_utils.load_checkpoint_to_cpu(path, overrides)
    if state.get("args") is not None:
        with hydras_warnings_hidden():
            state["cfg"], state["args"] = convert_namespace_to_omegaconf(state["args"]), None
    return state


def twin_of(architecture: str) -> str | None:
    """Return the name of our model that has the parameters of a stock architecture, or None."""
    return TWINS.get(ARCH_MODEL_REGISTRY.get(architecture) or MODEL_REGISTRY.get(architecture))


def load(path: str, data: str, *, cpu: bool = False) -> Loaded:
    """Load a model and its task. fairseq's transformers are loaded as our models (``TWINS``).

    Args:
        path: checkpoint, read with torch's safe loader.
        data: folder of binarised data (fairseq-preprocess).
        cpu: do not use a GPU.
    """
    check_checkpoint(path)
    if not (Path(data) / "input0").is_dir():  # the classification task checks its data itself
        check_data_folder(data)
    diverse_mha.register()
    state = read_state(path, {"data": str(data)})
    cfg = state.get("cfg")
    if cfg is None or not state.get("model") or any(cfg.get(x) is None for x in ("model", "task")):
        raise UserError(f"{path}: has no model with options; give a checkpoint that training wrote")
    name = str(getattr(cfg.model, "_name", None) or getattr(cfg.model, "arch", None))
    model_class = ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)
    twin = twin_of(name)
    if twin is None and not getattr(model_class, "__module__", "").startswith("diverse_mha."):
        raise UserError(
            f"{path}: a model of architecture {name!r} has no head states; analyze supports "
            "models of this package, and fairseq's transformer and transformer_lm"
        )
    with fitting(path, data), reading(path, {}):
        if twin is None:
            (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([path], state=state)
        else:
            with options_explained(BUILDING_ERRORS):
                task = tasks.setup_task(cfg.task, from_checkpoint=True)
            check_dictionaries(path, recorded(state), task)
            if "task_state" in state:
                task.load_state_dict(state["task_state"])
            with options_explained(Exception, cfg.model):
                model = build_twin(twin, name, cfg.model, task)
            model.load_state_dict(state["model"], strict=True, model_cfg=cfg.model)
    model.eval()
    model = model.cuda() if torch.cuda.is_available() and not cpu else model
    return Loaded(path, name, model, task)


def build_twin(twin: str, name: str, options: Any, task: Any):
    """Build our model for the parameters of a stock checkpoint.

    ``twin``, ``name`` and ``options`` are as in :func:`twin_options`.
    """
    return MODEL_REGISTRY[twin].build_model(twin_options(twin, name, options), task)


def twin_options(twin: str, name: str, options: Any) -> Namespace:
    """Return all options of our model for the parameters of a stock checkpoint.

    Args:
        twin: name of our model, a value of ``TWINS``.
        name: architecture of the checkpoint.
        options: model options of the checkpoint.
    """
    known = to_namespace(options)
    if name in ARCH_CONFIG_REGISTRY:
        # Like fairseq, add the options that older versions did not save.
        ARCH_CONFIG_REGISTRY[name](known)
    if not getattr(known, "decoder_normalize_before", False):
        known.no_decoder_final_norm = False  # fairseq ignores this option; our models reject it
    return Namespace(**{**vars(to_namespace(MODEL_REGISTRY[twin].config())), **vars(known)})


def check_same_blocks(models: list[Loaded]) -> None:
    """Raise an error unless the language models split a text into the same blocks."""
    cut = [x for x in models if getattr(x.options(), "tokens_per_sample", None) is not None]
    for name in ("tokens_per_sample", "sample_break_mode", "add_bos_token"):
        values = [getattr(loaded.options(), name, None) or "none" for loaded in cut]
        for loaded, value in zip(cut, values, strict=True):
            if value != values[0]:
                raise UserError(
                    f"{loaded.path}: trained with {flag(name)} {value}, but {cut[0].path} with "
                    f"{values[0]}, so their blocks of text differ; analyze one model at a time"
                )


def batches_of(loaded: Loaded, subset: str, max_tokens: int) -> Sized:
    """Return the batches of a split for one pass, sorted by sentence length."""
    task, folder = loaded.task, loaded.options().data
    check_split(folder, subset)
    try:
        task.load_dataset(subset)
    except UserError as error:
        raise UserError(f"--subset {subset}: {error}") from error
    except FileNotFoundError as error:
        available = splits_in(folder)
        raise UserError(f"--subset {subset}: not in {folder}; available: {available}") from error
    batches = task.get_batch_iterator(
        task.dataset(subset),
        max_tokens=max_tokens,
        max_positions=loaded.longest(),
        ignore_invalid_inputs=True,
    ).next_epoch_itr(shuffle=False)
    if not len(batches):
        raise UserError(
            f"--subset {subset}: all sentences are longer than the model reads; give another split"
        )
    return batches


def on_device(loaded: Loaded, batches: Iterable[dict]) -> Iterator[dict]:
    """Yield the batches on the model's device, without empty batches."""
    device = next(loaded.model.parameters()).device
    for sample in batches:
        if sample:
            yield utils.move_to_cuda(sample, device) if device.type == "cuda" else sample


def iterate_batches(
    loaded: Loaded, subset: str, *, max_tokens: int = 4000, label: str = ""
) -> Iterator[dict]:
    """Iterate over a split once, sorted by sentence length.

    Args:
        loaded: the model and its task.
        subset: the split.
        max_tokens: tokens in a batch.
        label: label of the progress bar; empty: no progress bar.

    Yields:
        fairseq's batches, on the model's device.
    """
    batches = batches_of(loaded, subset, max_tokens)
    yield from on_device(
        loaded, with_progress(batches, f"{label} {subset}", "batches") if label else batches
    )


def translation_batch(task: Any, sources: list[Tensor], targets: list[Tensor]) -> dict:
    """Return a batch in fairseq's form, padded on the right, of token ids that end with eos."""
    pad = task.target_dictionary.pad()
    net_input = {
        "src_tokens": data_utils.collate_tokens(sources, task.source_dictionary.pad()),
        "src_lengths": torch.tensor([len(row) for row in sources]),
        # As in training, the decoder's input starts with eos.
        "prev_output_tokens": data_utils.collate_tokens([row.roll(1) for row in targets], pad),
    }
    return {"net_input": net_input, "target": data_utils.collate_tokens(targets, pad)}


@torch.no_grad()
def head_states(model: nn.Module, sample: dict, wanted: Wanted) -> dict[str, list[HeadStates]]:
    """Return component -> states of each layer for a batch.

    ``wanted`` names the states to return: for all components, or as component -> names.
    """
    return model(**sample["net_input"], return_head_states=wanted)[1]["head_states"]
