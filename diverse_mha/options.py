"""Lists the options of our models, criterions and tasks: ``diverse-mha options``.

fairseq's ``--help`` shows none of them without ``--user-dir``, because the plugin is not loaded.
"""

import argparse
import difflib
import shutil
import textwrap
from dataclasses import MISSING, Field, fields
from typing import NamedTuple

from diverse_mha.common.errors import UserError
from diverse_mha.common.options import flag
from diverse_mha.common.plugins import add_user_dir, import_plugin

_INDENT = " " * 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha options``."""
    parser.epilog = "example:\n  diverse-mha options transformer_coda"
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="a model, criterion or task (default: list the names)",
    )
    add_user_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha options``."""
    import_plugin(args.user_dir)
    known = components()
    if args.name is None:
        for group, spelt in _FLAGS.items():
            print(f"{group}s ({spelt} NAME):")
            print(_wrapped(", ".join(name for name in known if known[name].group == group)))
        return 0
    if args.name not in known:
        near = difflib.get_close_matches(args.name, known, n=3, cutoff=0)
        raise UserError(
            f"{args.name}: not a model, criterion or task of diverse-mha; nearest: "
            f"{', '.join(near)}; 'diverse-mha options' lists all"
        )
    component = known[args.name]
    print(
        f"{_FLAGS[component.group]} {args.name}  "
        f"(YAML: {component.group}._name; options with underscores)"
    )
    for option in component.options:
        default = default_of(option)
        print(f"  {flag(option.name)}" + (f"  (default: {default})" if default else ""))
        if text := option.metadata.get("help"):
            print(_wrapped(text))
    return 0


_FLAGS = {"model": "--arch", "criterion": "--criterion", "task": "--task"}


class Component(NamedTuple):
    """A registered model, criterion or task."""

    group: str  # ``model``, ``criterion`` or ``task``
    options: list[Field]  # options that this package adds, with the defaults of this name


def components() -> dict[str, Component]:
    """Return the models, criterions and tasks that this package registers, by name.

    Use it where a page or a tool has to agree with the options that exist; plugins that were
    imported are included.
    """
    from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
    from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY
    from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

    import diverse_mha

    diverse_mha.register()
    registries = {
        "model": (ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY),
        "criterion": (CRITERION_REGISTRY, CRITERION_DATACLASS_REGISTRY),
        "task": (TASK_REGISTRY, TASK_DATACLASS_REGISTRY),
    }
    added = _added()
    registered = {}
    for group, (classes, configs) in registries.items():
        for name, config in configs.items():
            # Test the class: a dataclass that extends one of fairseq's keeps fairseq's module.
            if config is None or not classes[name].__module__.startswith("diverse_mha."):
                continue
            options = [f for f in fields(config) if f.name in added]
            registered[name] = Component(group, options)
    return registered


def _added() -> set[str]:
    """Return the names of options that are not fairseq's."""
    from diverse_mha.criterions.token_loss import TokenLossConfig
    from diverse_mha.methods.diversity import diversity_options
    from diverse_mha.models.config import seam_options
    from diverse_mha.models.sentence_classifier import ClassifierConfig
    from diverse_mha.tasks.sentence_classification import SentenceClassificationConfig

    configs = (ClassifierConfig, SentenceClassificationConfig, TokenLossConfig)
    own = [f for config in configs for f in fields(config)]
    names = {option.name for option in (*own, *seam_options(), *diversity_options())}
    # _name is set by --arch, --criterion or --task, and data by the argument DATA.
    return names - {"_name", "data"}


def default_of(option: Field) -> str:
    """Return the default of an option as text; empty if there is none."""
    default = option.default
    if default is MISSING and option.default_factory is not MISSING:
        default = option.default_factory()
    return "" if default is None or default is MISSING else str(default)


def _wrapped(text: str) -> str:
    width = min(100, shutil.get_terminal_size().columns)
    return textwrap.fill(
        text, width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
    )
