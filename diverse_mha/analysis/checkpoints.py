"""Load a checkpoint and a split of its data for looking at the heads."""

from collections.abc import Iterator
from pathlib import Path

import torch
from fairseq import checkpoint_utils, utils
from tqdm import tqdm

from diverse_mha.attention import HeadStates
from diverse_mha.errors import UserError
from diverse_mha.tasks.resume import check_data_folder


def load_checkpoint(path: str, data: str, *, cpu: bool = False):
    """Load a model and its task.

    Args:
        path: checkpoint file.
        data: folder that fairseq-preprocess wrote.
        cpu: stay on the CPU even if there is a GPU.

    Returns:
        The model, at evaluation and on its device, and the task.

    Raises:
        UserError: if the file or the folder is missing or broken, or the model
            cannot show its heads.
    """
    if not Path(path).is_file():
        raise UserError(f"{path}: no such checkpoint; give the .pt file that training wrote")
    check_data_folder(data)
    try:
        models, _, task = checkpoint_utils.load_model_ensemble_and_task(
            [path], arg_overrides={"data": str(data)}
        )
    except RuntimeError as error:
        if "size mismatch" not in str(error) and "state_dict" not in str(error):
            raise
        raise UserError(
            f"{data}: its dictionaries do not fit {path}; give the data the model was trained on"
        ) from error
    model = models[0]
    if not hasattr(model, "decoder") or "diverse_mha" not in type(model).__module__:
        raise UserError(
            f"{path}: a {type(model).__name__} does not show its heads; train it as "
            "transformer_disagree, which has the same parameters"
        )
    model.eval()
    return (model.cuda() if torch.cuda.is_available() and not cpu else model), task


def iterate_head_states(
    model, task, subset: str, wanted: tuple[str, ...], *, max_tokens: int = 4000
) -> Iterator[dict[str, list[HeadStates]]]:
    """Run a split through the model, with a progress bar on a terminal.

    Args:
        model: a model that takes ``return_head_states``.
        task: its task.
        subset: name of the split, for example ``valid``.
        wanted: names of ``HeadStates``.
        max_tokens: tokens in a batch.

    Yields:
        The head states of each batch, by component, without gradients.

    Raises:
        UserError: if the data has no such split.
    """
    try:
        task.load_dataset(subset)
    except FileNotFoundError as error:
        raise UserError(f"--subset {subset}: {error}") from error
    batches = task.get_batch_iterator(
        task.dataset(subset),
        max_tokens=max_tokens,
        max_positions=utils.resolve_max_positions(task.max_positions(), model.max_positions()),
        ignore_invalid_inputs=True,
    ).next_epoch_itr(shuffle=False)
    device = next(model.parameters()).device
    with torch.no_grad():
        for sample in tqdm(batches, desc=subset, unit="batch", leave=False, disable=None):
            if not sample:
                continue
            sample = utils.move_to_cuda(sample, device) if device.type == "cuda" else sample
            yield model(**sample["net_input"], return_head_states=wanted)[1]["head_states"]
