"""Checks what is installed and whether it works: ``diverse-mha doctor``.

The checks are independent: the others still run after one has failed. Imports that may fail are
therefore inside the checks.
"""

import argparse
import functools
import importlib
import importlib.metadata
import platform
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import diverse_mha
from diverse_mha.common import on_import
from diverse_mha.common.files import ROOT
from diverse_mha.common.machine import computes_in_bfloat16, cores, installed, processor

FIRST, LAST = (3, 11), (3, 13)  # oldest and newest Python that can import fairseq-fixed
REINSTALL = (
    "run: bash scripts/setup.sh"
    if (ROOT / "scripts/setup.sh").is_file()
    else "reinstall the wheel with its dependencies"
)
REBUILD = (
    "rebuild fairseq for this torch: pip install --no-build-isolation --no-cache-dir "
    "--no-deps --force-reinstall fairseq-fixed"
)

#: Distribution whose version affects results -> (module to import, purpose).
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

#: Compiled extension of fairseq -> what needs it.
COMPILED = {
    "fairseq.data.data_utils_fast": "batching by number of tokens",
    "fairseq.data.token_block_utils_fast": "language modelling data",
    "fairseq.libbleu": "fairseq's own BLEU, which fairseq-generate prints",
}

#: Kind of component -> (module of fairseq, name of the registry in it).
REGISTRIES = {
    "architectures": ("fairseq.models", "ARCH_MODEL_REGISTRY"),
    "criterions": ("fairseq.criterions", "CRITERION_REGISTRY"),
    "tasks": ("fairseq.tasks", "TASK_REGISTRY"),
}


class Check(NamedTuple):
    """A check, which prints one line of the report."""

    name: str
    look: Callable[[], str]  # returns the finding, or raises an error if the check fails
    purpose: str = ""
    cure: str = REINSTALL  # printed if the check fails


def checks() -> Iterator[Check]:
    """Yield the checks in order."""
    cure = "fairseq needs Python 3.11 to 3.13; scripts/setup.sh looks for such a version"
    yield Check("python", _python, cure=cure)
    yield Check("torch", _torch)
    yield Check("fairseq", _fairseq)
    for name, (module, purpose) in DISTRIBUTIONS.items():
        yield Check(name, functools.partial(_distribution, name, module), purpose)
    yield Check("recipe", _recipe, "training with --config", "install omegaconf 2.3.0")
    yield Check("cores", lambda: str(cores()))
    yield Check("bfloat16", _bfloat16)
    yield Check("GPUs", _gpus)
    for module, purpose in COMPILED.items():
        yield Check(module, functools.partial(_load, module), purpose, REBUILD)
    for kind, (module, registry) in REGISTRIES.items():
        yield Check(kind, functools.partial(_registered, module, registry))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set the help text of ``diverse-mha doctor``, which has no options."""
    parser.epilog = "The exit code is 1 if a check failed.\n\nexample:\n  diverse-mha doctor"


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha doctor``."""
    on_import.cancel("fairseq")  # registration is checked separately
    failed = []
    for check in checks():
        serves, status, cure = f" ({check.purpose})" if check.purpose else "", "ok", ""
        try:
            finding = check.look()
        except Exception as error:
            failed.append(check.name)
            status, finding = "FAILED", f"{type(error).__name__}: {error}".partition("\n")[0]
            # If torch or fairseq is missing, it has to be installed, not rebuilt.
            missing = getattr(error, "name", None) in ("torch", "fairseq")
            cure = f"; {REINSTALL if missing else check.cure}"
        print(f"{status:8}{check.name:36}{finding}{serves}{cure}", flush=True)
    print(f"\nFailed: {', '.join(failed)}." if failed else "\nAll checks passed.")
    return 1 if failed else 0


def _python() -> str:
    version = f"{platform.python_version()} ({sys.executable})"
    if not FIRST <= sys.version_info[:2] <= LAST:
        raise RuntimeError(version)
    return version


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
    return ", ".join(map(" ".join, versions.items())) or "imported from a folder, not installed"


def _recipe() -> str:
    """Merge the demo's recipe into fairseq's configuration."""
    from diverse_mha.recipes.configuration import configure
    from diverse_mha.recipes.recipe import read_recipe

    configure(read_recipe("demo"))
    return "composes"


def _bfloat16() -> str:
    return {
        True: f"{processor()} computes in bfloat16",
        False: f"{processor()} only emulates bfloat16, so recipes train in float32",
        None: f"not known whether {processor()} computes in bfloat16",
    }[computes_in_bfloat16()]


def _gpus() -> str:
    import torch

    count = torch.cuda.device_count()
    return ", ".join(torch.cuda.get_device_name(index) for index in range(count)) or "none"


def _load(module: str) -> str:
    importlib.import_module("torch")  # loads the libraries that the extensions are linked to
    importlib.import_module(module)
    return "loads"


def _registered(module: str, registry: str) -> str:
    """Return the names that this package has added to a registry of fairseq."""
    diverse_mha.register()
    entries = getattr(importlib.import_module(module), registry).items()
    names = sorted(name for name, cls in entries if cls.__module__.startswith("diverse_mha."))
    if not names:
        raise LookupError("this package has registered no names")
    return ", ".join(names)
