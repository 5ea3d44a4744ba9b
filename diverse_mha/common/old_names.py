"""Renamed options and tasks: translates checkpoints and settings of the published study."""

from argparse import Namespace
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from omegaconf import OmegaConf, open_dict

#: Config group -> old name -> new name of an option.
OPTIONS = {"model": {"cascade": "logits"}}
#: (Config group, option) -> old value -> new value.
VALUES = {
    ("task", "_name"): {
        "diverse_translation": "exact_translation",
        "diverse_language_modeling": "exact_language_modeling",
    },
    ("criterion", "disagreement_form"): {"printed": "paper"},
}
#: Old name -> new name of a task class; a checkpoint's task state is keyed by it.
TASKS = {
    "DiverseTranslationTask": "ExactTranslationTask",
    "DiverseLanguageModelingTask": "ExactLanguageModelingTask",
}


def renew(state: dict) -> None:
    """Rename a checkpoint's options and its tasks' state, in place."""
    kept = state.get("extra_state") or {}
    for old in TASKS.keys() & kept.keys():
        kept[TASKS[old]] = kept.pop(old)
    _renew_options(state.get("cfg"))


def _renew_options(options: Any) -> None:
    if not isinstance(options, Mapping):
        return
    for group, names in OPTIONS.items():
        held = options.get(group)
        held = vars(held) if isinstance(held, Namespace) else held
        if isinstance(held, Mapping):
            with open_dict(held) if OmegaConf.is_config(held) else nullcontext():
                for old in names.keys() & held.keys():
                    held[names[old]] = held.pop(old)
    for (group, name), values in VALUES.items():
        held = options.get(group)
        if isinstance(held, Mapping) and held.get(name) in values:
            held[name] = values[held[name]]


def as_published(settings: Mapping[str, Mapping]) -> dict[str, dict]:
    """Return settings with the old names, by which published runs are identified."""
    settings = {group: dict(values) for group, values in settings.items()}
    for group, names in OPTIONS.items():
        back = {new: old for old, new in names.items()}
        held = settings.get(group, {})
        settings[group] = {back.get(name, name): value for name, value in held.items()}
    for (group, name), values in VALUES.items():
        back = {new: old for old, new in values.items()}
        if (value := settings.get(group, {}).get(name)) in back:
            settings[group][name] = back[value]
    return settings
