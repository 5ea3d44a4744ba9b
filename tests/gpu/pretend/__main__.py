"""What a training step would start on a GPU, and whether it could: ``python -m tests.gpu.pretend``.

``count [VARIANT...]`` prints how many operations a forward pass, and this with the backward pass,
start at the Base shape with 4,096 tokens a batch in bfloat16, and the MiB that model, gradients and
activations take at most; ``check`` takes a step of every kind of model with every method.
"""

import itertools
import sys

import torch

from benchmarks import training
from benchmarks.batches import batches_for, stand_in_task
from benchmarks.shapes import SHAPES
from benchmarks.variants import VARIANTS, variants_of
from tests import toy
from tests.gpu.pretend.card import PretendedGPU
from tests.gpu.test_models import METHODS, SIDES
from tests.properties import families

# Left out: CODA's kernel is Triton's, EM routing's is torch.compile's, of which no fake runs.
COUNTED = [name for name in VARIANTS if not {"coda", "both"} & {name} and "em-" not in name]
MORE_METHODS = {
    "gate": {"aggregation": "headwise-gate"},
    "talking": {"logits": "talking-heads"},
    "noise": {"logits": "mlp", "attention_noise": 1.0, "attention_dropout": 0.1},
    "drophead": {"drophead": 0.3, "dropout": 0.1},
    "normed": {"aggregation": "em-routing", "routing_pre_norm": True, "routing_post_norm": True},
}
TERMS = (
    {
        "disagreement": "subspace,position,output",
        "hsic_weight": 0.1,
        "orthogonality_weight": 0.1,
    },
    {
        "disagreement": "subspace,output",
        "disagreement_form": "centred,squared",
        "hsic_weight": 0.1,
        "hsic_kernel": "rbf",
        "orthogonality_weight": 0.1,
        "orthogonality_method": "exact",
        "orthogonality_projections": "q,k,v",
    },
)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def count(name: str, tokens: int = 4096) -> tuple[int, int, int]:
    """Count the operations that forward pass and whole step of a variant start, and the MiB."""
    shape = SHAPES["base"]
    variant, task = variants_of(shape)[name], stand_in_task(shape.vocabulary)
    model = training.build_model(variant, shape.options(), task).bfloat16().train()
    criterion = training._build_criterion(variant, task).train()
    batch = batches_for(shape, 1, tokens, shape.mean_length, 1)[0]
    with PretendedGPU() as gpu:
        model, batch = gpu.insert(model), gpu.insert(batch)
        gpu.started.clear()
        loss, _, _ = criterion(model, batch)
        forward = gpu.started.total()
        loss.backward()
    return forward, gpu.started.total(), gpu.peak >> 20


def check(family: str, method: dict, terms: dict, dtype: torch.dtype) -> set[str]:
    """Take a step, validate and decode; return the places where the host waited.

    Raises:
        Exception: where devices or dtypes do not go together.
    """
    options = dict(method)
    if "aggregation" in options:
        options |= {f"aggregation_{side}_layers": "all" for side in SIDES[family]}
    model = families.build(family, options).to(dtype).train()
    criterion, sample = families.criterion(family, terms), families.batch(family, [5, 3, 4], 2)
    with PretendedGPU() as gpu:
        model, sample = gpu.insert(model), gpu.insert(sample)
        loss, size, _ = criterion(model, sample)
        (loss / size).backward()
        places = {p.grad.device.type for p in model.parameters() if p.grad is not None}
        assert places == {"cuda"}, places
        with torch.no_grad():
            criterion.eval()(model.eval(), sample)
            if family == "translation":
                toy.step_by_step(model, sample)
    return set(gpu.waited)


def main(words: list[str]) -> int:
    """Do what the command line says; the exit code is 1 if a step could not be taken."""
    if words[:1] == ["count"]:
        for name in words[1:] or COUNTED:
            print(f"{name:20}", *(f"{number:6,}" for number in count(name)), flush=True)
        return 0
    cases = list(itertools.product(SIDES, {**METHODS, **MORE_METHODS}.items()))
    waits, failed = set(), 0
    for number, (family, (name, method)) in enumerate(cases):
        # Each with one of the dtypes and of the sets of terms, which take turns.
        dtype, terms = DTYPES[number % 3], TERMS[number % 2]
        try:
            waits |= check(family, method, terms, dtype)
        except Exception as error:
            failed += 1
            print(f"failed: {family} {name} {dtype}: {type(error).__name__}: {error}"[:400])
    print(f"{len(cases) - failed} of {len(cases)} steps; the host waits at:")
    print(*sorted(place.rpartition("/diverse_mha/")[2] for place in waits), sep="\n")
    return int(failed > 0)


sys.exit(main(sys.argv[1:]))
