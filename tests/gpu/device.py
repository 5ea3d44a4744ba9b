"""The device under test, and its permitted deviation from the CPU.

``DIVERSE_MHA_TEST_DEVICE=cpu pytest -m gpu`` runs every line of these tests without a GPU.
"""

import os

# With this variable, torch asks the driver whether there is a GPU. Otherwise torch would initialise
# CUDA, and forked processes could not use CUDA.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

import pytest
import torch

DEVICE = torch.device(os.environ.get("DIVERSE_MHA_TEST_DEVICE", "cuda"))
ON_GPU = DEVICE.type == "cuda"
MARKS = [
    pytest.mark.gpu,
    pytest.mark.skipif(ON_GPU and not torch.cuda.is_available(), reason="needs a GPU"),
]

# Largest permitted |found - expected| / |expected| (Euclidean norms). Expected values are computed
# on the CPU in float64 from the same rounded inputs. A single rounding error is 6e-8, 5e-4 or
# 4e-3, and the errors of some tens of successive operations add up.
TOLERANCE = {torch.float32: 5e-5, torch.float16: 5e-3, torch.bfloat16: 5e-2}
DTYPES = list(TOLERANCE)


def name(dtype: torch.dtype) -> str:
    """Return the name of a dtype for a test's id."""
    return str(dtype).removeprefix("torch.")


def to_device(value, device=DEVICE, dtype=None):
    """Copy nested tensors, or move a module, to the device; convert floats to ``dtype``."""
    if isinstance(value, dict):
        return {key: to_device(item, device, dtype) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_device(item, device, dtype) for item in value]
    if isinstance(value, torch.nn.Module):
        return value.to(device, dtype)
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(device, dtype if value.is_floating_point() else None)


def distance(found, expected) -> float:
    """Return the relative Euclidean distance of two lists or dicts of tensors."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    pairs = zip(found, expected, strict=True)
    pairs = [(a.detach().cpu().double(), b.detach().cpu().double()) for a, b in pairs]
    apart = sum(float((a - b).square().sum()) for a, b in pairs) ** 0.5
    return apart / max(sum(float(b.square().sum()) for _, b in pairs) ** 0.5, 1e-12)
