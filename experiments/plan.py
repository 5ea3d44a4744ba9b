"""Turns an experiment into a run at a scale: recipe, choices, settings, name."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.old_names import as_published
from diverse_mha.evaluation.pipeline import GROUPS, Pipeline, read_pipeline
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
    pipeline: Pipeline  # preparation and evaluation
    corpus: str  # its folder below the data folder
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
    base = compose(recipe.config, choices, {})
    languages = ("", "")
    if lookup(base, "task.source_lang"):
        languages = (base["task"]["source_lang"], base["task"]["target_lang"])
        languages = languages[::-1] if experiment.reverse != recipe.reverse else languages
        wanted |= {"task.source_lang": languages[0], "task.target_lang": languages[1]}
    if updates is not None:
        wanted |= {"optimization.max_update": updates, "optimization.max_epoch": 0}
    wanted["common.seed"] = seed
    changed = {}
    for name, value in wanted.items():
        there = lookup(base, name)
        if there != value and not (there is None and value is False and name in _OFF):
            changed[name] = value
    composed = compose(recipe.config, choices, changed)
    pipeline = read_pipeline(composed, recipe.config)
    if updates is not None:
        pipeline = replace(pipeline, average=0)  # a trial has too few checkpoints
    pipeline = replace(pipeline, prepare=recipe.prepare or pipeline.prepare)
    corpus = recipe.folder or str(lookup(composed, "task.data"))
    corpus = corpus.rpartition("/data/")[2].removesuffix("/bin").format(task=experiment.task)
    key = fingerprint(composed, pipeline, corpus)
    return Run(
        name=_name(experiment, recipe, changed, languages, seed, key),
        key=key,
        scale=scale,
        recipe=recipe,
        choices=choices,
        settings=changed,
        composed=composed,
        pipeline=pipeline,
        corpus=corpus,
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


def fingerprint(settings: Mapping, pipeline: Pipeline, corpus: str) -> str:
    """Hash what decides a result: settings without places, evaluation and corpus."""
    kept = as_published({k: v for k, v in settings.items() if k not in GROUPS})
    for group, key in PLACES:
        kept.get(group, {}).pop(key, None)
    average = [pipeline.average, pipeline.average_by] if pipeline.average else 0
    evaluation = [pipeline.beam, pipeline.lenpen, average, list(pipeline.evaluate)]
    made = [corpus, list(pipeline.prepare)]
    text = json.dumps([kept, pipeline.kind, evaluation, made], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _shape(experiment: Experiment, recipe: Recipe) -> dict[str, int]:
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
    if any(languages):
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
