"""Opens checkpoints as models, with their task and data.

Every command that runs a trained model calls :func:`open_models`: the evaluations, ``translate``,
``align``, ``analyze``, ``prune``, ``export`` for its alignments, and ``diverse_mha.load``. It
refuses data that do not fit the model.
"""

import copy
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import checkpoint_utils, tasks, utils
from fairseq.data import data_utils
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer_lm import TransformerLanguageModel
from torch import Tensor

import diverse_mha
from diverse_mha.attention import HeadStates, Wanted
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import check_data_folder
from diverse_mha.common.options import flag
from diverse_mha.common.progress import with_progress
from diverse_mha.evaluation.states import grouped, open_state
from diverse_mha.fairseq_fixes.dictionaries import check_dictionaries, recorded
from diverse_mha.models.config import to_namespace
from diverse_mha.tasks.data_files import check_split, dictionaries_named, splits_in

Sample = dict[str, Any]  # a batch of fairseq
#: fairseq's model -> our model with the same parameters.
TWINS = {
    TransformerModel: "transformer_disagree",
    TransformerLanguageModel: "transformer_lm_disagree",
}


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
        state: its content, from :func:`~diverse_mha.evaluation.states.grouped`.
        data: the data folder.

    Returns:
        As :func:`check_dictionaries`.
    """
    options = copy.deepcopy(state["cfg"].task)
    options.data = str(data)
    with fitting(checkpoint, data):
        task = tasks.setup_task(options, from_checkpoint=True)
    return check_dictionaries(checkpoint, recorded(state), task)


class Batches:
    """The batches of a split on a model's device, without empty ones; ``len`` counts all."""

    def __init__(self, loaded: "Loaded", batches: Any, label: str):
        self._loaded, self._batches, self._label = loaded, batches, label

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Sample]:
        shown = (
            with_progress(self._batches, self._label, "batches") if self._label else self._batches
        )
        return (self._loaded.on_device(sample) for sample in shown if sample)


@dataclass(frozen=True)
class Loaded:
    """One model or the models of an ensemble, with the task and its data."""

    path: str  # several paths joined by ':' for an ensemble
    architecture: str  # name of the architecture in the first checkpoint
    models: Sequence[Any]  # of fairseq, on their device
    task: Any
    limit: Any = None  # maximum sentence lengths; None: the models' own

    @property
    def model(self) -> Any:
        """The only model, or the first of an ensemble."""
        return self.models[0]

    @property
    def longest(self) -> Any:
        """The maximum sentence lengths, in fairseq's form."""
        if self.limit is not None:
            return self.limit
        limits = (model.max_positions() for model in self.models)
        return utils.resolve_max_positions(self.task.max_positions(), *limits)

    @property
    def options(self) -> Any:
        """The task's options; fairseq's language modelling task keeps them in ``args``."""
        return getattr(self.task, "cfg", None) or self.task.args

    def batches(self, subset: str, max_tokens: int = 4000, *, label: str = "") -> Batches:
        """Return the batches of a split for one pass, sorted by sentence length.

        Args:
            subset: the split.
            max_tokens: tokens in a batch.
            label: label of the progress bar; empty: no progress bar.
        """
        folder = self.options.data
        check_split(folder, subset)
        try:
            self.task.load_dataset(subset)
        except UserError as error:
            raise UserError(f"--subset {subset}: ", *error.args) from error
        except FileNotFoundError as error:
            available = splits_in(folder)
            raise UserError(
                f"--subset {subset}: not in {folder}; available: {available}"
            ) from error
        batches = self.task.get_batch_iterator(
            self.task.dataset(subset),
            max_tokens=max_tokens,
            max_positions=self.longest,
            ignore_invalid_inputs=True,
        ).next_epoch_itr(shuffle=False)
        if not len(batches):
            raise UserError(
                f"--subset {subset}: all sentences are longer than the model reads; give another "
                "split"
            )
        return Batches(self, batches, f"{label} {subset}" if label else "")

    def on_device(self, sample: Sample) -> Sample:
        """Return a batch on the model's device."""
        device = next(self.model.parameters()).device
        if device.type != "cuda":
            return sample
        moved: Any = utils.move_to_cuda(sample, device)  # a mapping, as what it moves
        return moved

    @torch.no_grad()
    def states(self, sample: Sample, wanted: Wanted) -> dict[str, list[HeadStates]]:
        """Return component -> states of each layer for a batch.

        ``wanted`` names the states to return: for all components, or as component -> names.
        """
        output = self.model(**sample["net_input"], return_head_states=wanted)
        return output[1]["head_states"]


def open_models(
    paths: str | Path | Sequence[str],
    data: str | Path,
    *,
    cpu: bool = False,
    heads: bool = False,
    states: Mapping[str, dict] | None = None,
    task: Any = None,
    overrides: Mapping | None = None,
    half: bool = False,
) -> Loaded:
    """Open one model, or an ensemble, with its task and data.

    Args:
        paths: the checkpoints.
        data: folder of binarised data (fairseq-preprocess).
        cpu: do not use a GPU.
        heads: the models must return head states. fairseq's transformers are then opened as our
            models with the same parameters (``TWINS``), and other architectures are refused.
        states: path -> content of checkpoints that are already open.
        task: the task, set up by the caller; None: that of the first checkpoint, with ``data``.
        overrides: options that replace those in the checkpoints.
        half: convert the parameters to float16.
    """
    paths = [str(paths)] if isinstance(paths, str | Path) else paths
    if not (Path(data) / "input0").is_dir():  # the classification task checks its data itself
        check_data_folder(data)
    diverse_mha.register()
    overrides = None if overrides is None else dict(overrides)
    if task is None:
        overrides = {"data": str(data)} | (overrides or {})
    models, architecture = [], ""
    for path in paths:
        state = grouped(path, (states or {}).get(path) or open_state(path), overrides)
        options = state["cfg"].model
        name = str(getattr(options, "_name", None) or getattr(options, "arch", None))
        architecture = architecture or name
        if heads and not _has_heads(name):
            twin = twin_of(name)
            if twin is None:
                raise UserError(
                    f"{path}: a model of architecture {name!r} has no head states; supported are "
                    "models of this package, and fairseq's transformer and transformer_lm"
                )
            built = Namespace(**{**vars(twin_options(twin, name, options)), "_name": twin})
            state["cfg"] = SimpleNamespace(model=built, task=state["cfg"].task)
        with fitting(path, data):
            (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
                [path], overrides, task, state=state
            )
        model = model.eval().half() if half else model.eval()
        models.append(model.cuda() if torch.cuda.is_available() and not cpu else model)
    return Loaded(":".join(paths), architecture, models, task)


def _has_heads(architecture: str) -> bool:
    model_class = ARCH_MODEL_REGISTRY.get(architecture) or MODEL_REGISTRY.get(architecture)
    return twin_of(architecture) is None and getattr(model_class, "__module__", "").startswith(
        "diverse_mha."
    )


def twin_of(architecture: str) -> str | None:
    """Return the name of our model that has the parameters of a stock architecture, or None."""
    return TWINS.get(ARCH_MODEL_REGISTRY.get(architecture) or MODEL_REGISTRY.get(architecture))


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
    own = vars(to_namespace(MODEL_REGISTRY[twin].config()))
    return Namespace(**{**own, **vars(known)})


def check_same_blocks(models: list[Loaded]) -> None:
    """Raise an error unless the language models split a text into the same blocks."""
    cut = [x for x in models if getattr(x.options, "tokens_per_sample", None) is not None]
    for name in ("tokens_per_sample", "sample_break_mode", "add_bos_token"):
        values = [getattr(loaded.options, name, None) or "none" for loaded in cut]
        for loaded, value in zip(cut, values, strict=True):
            if value != values[0]:
                raise UserError(
                    f"{loaded.path}: trained with {flag(name)} {value}, but {cut[0].path} with "
                    f"{values[0]}, so their blocks of text differ; analyze one model at a time"
                )


def translation_batch(task: Any, sources: list[Tensor], targets: list[Tensor]) -> Sample:
    """Return a batch in fairseq's form, padded on the right, of token ids that end with eos."""
    pad = task.target_dictionary.pad()
    net_input = {
        "src_tokens": data_utils.collate_tokens(sources, task.source_dictionary.pad()),
        "src_lengths": torch.tensor([len(row) for row in sources]),
        # As in training, the decoder's input starts with eos.
        "prev_output_tokens": data_utils.collate_tokens([row.roll(1) for row in targets], pad),
    }
    return {"net_input": net_input, "target": data_utils.collate_tokens(targets, pad)}
