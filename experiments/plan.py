"""Turns an experiment into a run at a scale: recipe, choices, settings, name."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.old_names import as_published
from diverse_mha.training.compose import compose, lookup
from experiments.experiments import Experiment
from experiments.scales import CORPORA, Recipe, both_sides


@dataclass(frozen=True, eq=False)
class Run:
    """One training at one scale with one seed."""

    name: str  # readable, ending with ``key``
    key: str  # hash of all that decides the result
    scale: str
    recipe: Recipe
    choices: Mapping[str, str]  # by group of ``configs/``
    settings: Mapping[str, object]  # changes of the recipe, by dotted name
    composed: Mapping = field(repr=False)  # all settings
    languages: tuple[str, str]  # source and target, for translation
    seed: int

    def __eq__(self, other: object) -> bool:
        # Two experiments may be one run.
        return isinstance(other, Run) and (self.scale, self.name) == (other.scale, other.name)

    def __hash__(self) -> int:
        return hash((self.scale, self.name))

    @property
    def batches(self) -> int:
        """Batches of ``max_tokens`` in one update, over all processes."""
        return int((lookup(self.composed, "optimization.update_freq") or [1])[0])

    def folder(self, out: Path) -> Path:
        """Return the run's folder below the output folder."""
        return out / self.scale / "runs" / self.name


@dataclass(frozen=True)
class Need:
    """A run that a table or figure needs."""

    run: Run
    heads: Mapping[str, str]  # options of ``diverse-mha analyze``; empty: not measured
    against: Run | None = None  # the run to compare it with

    @property
    def runs(self) -> tuple[Run, ...]:
        """The run and the one to compare it with."""
        return (self.run,) if self.against is None else (self.run, self.against)


def plan(experiment: Experiment, scale: str, seed: int = 1, *, updates: int | None = None) -> Run:
    """Turn an experiment into a run; ``updates`` replaces the recipe's number, without averages."""
    by_scale = CORPORA[experiment.corpus]
    if scale not in by_scale:
        scales = ", ".join(sorted(by_scale))
        raise UserError(f"--scale {scale}: {experiment.corpus} has only {scales}")
    recipe = by_scale[scale]
    recipe = replace(recipe, folder=recipe.folder.format(task=experiment.task))
    wanted = dict(recipe.settings)
    choices = {}
    if recipe.sizes:
        if experiment.size not in recipe.sizes:
            raise UserError(f"{recipe.config} has no size {experiment.size!r} at --scale {scale}")
        wanted |= recipe.sizes[experiment.size]
    else:
        choices["size"] = experiment.size
    choices["method"] = experiment.method
    wanted |= _shape(experiment, recipe)
    wanted |= experiment.settings
    languages = recipe.languages
    if experiment.reverse != recipe.reverse:
        languages = languages[::-1]
    if recipe.kind == "translation":
        wanted |= {"task.source_lang": languages[0], "task.target_lang": languages[1]}
    if updates is not None:
        recipe = replace(recipe, average=0)  # a trial has too few checkpoints
        wanted |= {"optimization.max_update": updates, "optimization.max_epoch": 0}
    wanted["common.seed"] = seed
    base = compose(recipe.config, choices, {})
    changed = {}
    for name, value in wanted.items():
        there = lookup(base, name)
        if there != value and not (there is None and value is False and name in _OFF):
            changed[name] = value
    composed = compose(recipe.config, choices, changed)
    average = [recipe.average, "update"] if recipe.average else 0
    evaluation = [recipe.beam, recipe.lenpen, average, list(recipe.evaluate)]
    corpus = [recipe.folder, list(recipe.prepare)]
    key = fingerprint(composed, recipe.kind, evaluation, corpus)
    return Run(
        name=_name(experiment, recipe, changed, languages, seed, key),
        key=key,
        scale=scale,
        recipe=recipe,
        choices=choices,
        settings=changed,
        composed=composed,
        languages=languages,
        seed=seed,
    )


#: Settings of places and logs, which do not change the result; the command gives its own.
PLACES = (
    ("checkpoint", "save_dir"),
    ("common", "user_dir"),
    ("common", "log_format"),
    ("common", "log_interval"),
    ("task", "data"),
)


def fingerprint(settings: Mapping, *more: object) -> str:
    """Hash what decides a result: settings without places, and ``more``."""
    kept = as_published(settings)
    for group, key in PLACES:
        kept.get(group, {}).pop(key, None)
    text = json.dumps([kept, *more], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _shape(experiment: Experiment, recipe: Recipe) -> dict[str, int]:
    if recipe.kind != "translation":
        return {}
    shape = {}
    if experiment.width is not None:
        width = int(experiment.width * recipe.width)
        shape |= {"embed_dim": width, "ffn_embed_dim": width * recipe.ffn}
    if experiment.heads is not None:
        shape["attention_heads"] = experiment.heads
    return both_sides(**shape)


# Off by default in fairseq, so that False is no change.
_OFF = ("common.bf16", "common.fp16")
# Names of methods in the published runs.
_PUBLISHED = {
    "disagreement_em_routing": "both",
    "drophead_orthogonality_hsic": "all_three",
}
# Already in the name, or equal in all runs of a scale.
_UNNAMED = ("common.", "checkpoint.", "task.", "dataset.", "lr_scheduler.")


def _name(experiment, recipe, changed, languages, seed, key) -> str:
    parts = [recipe.config]
    if recipe.kind == "translation":
        parts += ["-".join(languages)]
    parts += [experiment.task] if experiment.task else []
    parts += [experiment.size] if experiment.size not in ("base", "iwslt") else []
    parts += [_PUBLISHED.get(experiment.method, experiment.method)]
    skip = set(recipe.settings) | set(recipe.sizes.get(experiment.size, {}))
    seen = set()
    for name, value in changed.items():
        if (name in skip and name not in experiment.settings) or name.startswith(_UNNAMED):
            continue
        # Encoder and decoder have one width.
        short = name.split(".")[-1].replace("encoder_", "").replace("decoder_", "")
        text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
        part = f"{short}={text}".replace(",", "+")
        if part not in seen:
            parts.append(part)
        seen.add(part)
    return ".".join([*parts, f"seed{seed}", key]).replace("/", "_")
