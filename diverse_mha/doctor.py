"""Checks what is installed and whether it works: ``diverse-mha doctor``.

Every check is separate, so a broken part hides no other. Imports that may fail are inside checks.
"""

import argparse
import functools
import importlib
import importlib.metadata
import json
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import diverse_mha
from diverse_mha.common.machine import computes_in_bfloat16, cores, installed, processor
from diverse_mha.common.places import ROOT

OK, FAILED = "ok", "FAILED"
FIRST, LAST = (3, 11), (3, 13)  # versions of Python that can import fairseq-fixed
REINSTALL = (
    "run: bash scripts/setup.sh"
    if (ROOT / "scripts/setup.sh").is_file()
    else "install the wheel again, with what it needs"
)
REBUILD = (
    "rebuild fairseq for this torch: pip install --no-build-isolation --no-cache-dir "
    "--no-deps --force-reinstall fairseq-fixed"
)

#: Distributions whose versions matter to results: a module and the purpose of each.
DISTRIBUTIONS = {
    "numpy": ("numpy", "arrays"),
    "sacrebleu": ("sacrebleu.metrics", "BLEU"),
    "sacremoses": ("sacremoses", "tokenising"),
    "scipy": ("scipy.stats", "intervals and p-values of differences"),
    "subword-nmt": ("subword_nmt.apply_bpe", "BPE"),
    "sentencepiece": ("sentencepiece", "sentencepiece"),
    "hydra-core": ("hydra", "fairseq's options"),
    "omegaconf": ("omegaconf", "fairseq's options"),
}

#: fairseq's compiled parts that are used here: what stops working without each.
COMPILED = {
    "fairseq.data.data_utils_fast": "batching by number of tokens",
    "fairseq.data.token_block_utils_fast": "language modelling data",
    "fairseq.libbleu": "fairseq's own BLEU, which fairseq-generate prints",
}

#: Modules and names of fairseq's registries.
REGISTRIES = {
    "architectures": ("fairseq.models", "ARCH_MODEL_REGISTRY"),
    "criterions": ("fairseq.criterions", "CRITERION_REGISTRY"),
    "tasks": ("fairseq.tasks", "TASK_REGISTRY"),
}


@dataclass
class Item:
    """One line of the report."""

    name: str
    status: str
    detail: str
    cure: str = ""


def examine() -> Iterator[Item]:
    """Yield the result of each check."""
    fits = FIRST <= sys.version_info[:2] <= LAST
    cure = "" if fits else "fairseq needs Python 3.11 to 3.13; scripts/setup.sh looks for one"
    found = f"{platform.python_version()} ({sys.executable})"
    yield Item("python", OK if fits else FAILED, found, cure)
    yield _attempt("torch", _torch)
    yield _attempt("fairseq", _fairseq)
    for name, (module, purpose) in DISTRIBUTIONS.items():
        yield _attempt(name, functools.partial(_distribution, name, module), purpose)
    yield Item("cores", OK, str(cores()))
    yield _attempt("bfloat16", _bfloat16)
    yield _attempt("GPUs", _gpus)
    yield _attempt("attention", _attention)
    for module, feature in COMPILED.items():
        yield _attempt(module, functools.partial(_load, module), feature, cure=REBUILD)
    for kind, (module, registry) in REGISTRIES.items():
        yield _attempt(kind, functools.partial(_registered, module, registry))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha doctor``."""
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.epilog = (
        "The exit code is 1 if something that is needed failed.\n\nexample:\n  diverse-mha doctor"
    )


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha doctor``."""
    items = []
    for item in examine():
        items.append(item)
        if not args.json:
            cure = f"; {item.cure}" if item.cure else ""
            print(f"{item.status:8}{item.name:36}{item.detail}{cure}", flush=True)
    failed = [item.name for item in items if item.status == FAILED]
    if args.json:
        print(json.dumps({"ok": not failed, "items": [asdict(item) for item in items]}, indent=2))
    elif failed:
        print(f"\n{len(failed)} of {len(items)} failed: {', '.join(failed)}")
    else:
        print("\nAll that is needed works.")
    return 1 if failed else 0


def _attempt(name: str, check: Callable[[], str], purpose: str = "", cure: str = REINSTALL) -> Item:
    """Run a check; any exception is its result."""
    serves = f" ({purpose})" if purpose else ""
    try:
        return Item(name, OK, check() + serves)
    except importlib.metadata.PackageNotFoundError:
        return Item(name, FAILED, "not installed" + serves, cure)
    except Exception as error:
        reason = (str(error).strip() or "no message").split("\n")[0]
        if getattr(error, "name", None) in ("torch", "fairseq"):  # nothing to rebuild
            cure = REINSTALL
        return Item(name, FAILED, f"{type(error).__name__}: {reason}{serves}", cure)


def _torch() -> str:
    import torch

    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    return f"{torch.__version__} ({build})"


def _distribution(name: str, module: str) -> str:
    importlib.import_module(module)
    return importlib.metadata.version(name)


def _fairseq() -> str:
    versions = installed("fairseq-fixed", "fairseq")
    importlib.import_module("fairseq")
    return ", ".join(map(" ".join, versions.items())) or "imported from a folder, no distribution"


def _bfloat16() -> str:
    return {
        True: f"{processor()} has arithmetic for it",
        False: f"{processor()} imitates it; train in float32 there",
        None: f"whether {processor()} has arithmetic for it is not known",
    }[computes_in_bfloat16()]


def _gpus() -> str:
    import torch

    count = torch.cuda.device_count()
    return ", ".join(torch.cuda.get_device_name(index) for index in range(count)) or "none"


def _attention() -> str:
    import torch

    query = torch.eye(2)[None, None]  # (B, H, T, D) = (1, 1, 2, 2)
    torch.nn.functional.scaled_dot_product_attention(query, query, query)
    return "scaled_dot_product_attention runs"


def _load(module: str) -> str:
    importlib.import_module("torch")  # the extensions link to its libraries
    importlib.import_module(module)
    return "loads"


def _registered(module: str, registry: str) -> str:
    """Name what this package has put into one of fairseq's registries."""
    diverse_mha.register()
    found = getattr(importlib.import_module(module), registry).items()
    names = sorted(name for name, cls in found if cls.__module__.startswith("diverse_mha."))
    if not names:
        raise LookupError("this package registered none")
    return ", ".join(names)
