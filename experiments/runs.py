"""Turns an experiment into a run at a scale: recipe, choices, settings, name and commands."""

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import ROOT
from diverse_mha.common.status import read_status
from diverse_mha.recipes.recipe import compose, lookup, spell
from diverse_mha.recipes.steps import GROUPS, KINDS, Pipeline, read_pipeline
from experiments.papers import Experiment
from experiments.scales import CORPORA, DATA, Recipe, both_sides

#: Settings of folders and logs. They do not change the result, so the fingerprint omits them.
PLACES = (
    ("checkpoint", "save_dir"),
    ("common", "user_dir"),
    ("common", "log_format"),
    ("common", "log_interval"),
    ("task", "data"),
)
_OFF = ("common.bf16", "common.fp16")  # off by default in fairseq: setting False is no change
# Prefixes of settings that a run's name omits. The name has their values in another form, or they
# are equal in most runs of a scale; the key distinguishes the others.
_UNNAMED = ("common.", "checkpoint.", "task.", "dataset.", "lr_scheduler.")


@dataclass(frozen=True)
class Place:
    """Folders and devices of all runs."""

    out: Path  # output folder
    data: Path  # folder of prepared corpora
    gpus: int = 0  # 0: train on the CPU
    plugin: Path | None = None  # the user's package, imported for training and analysis


@dataclass(frozen=True)
class Step:
    """One command of a run."""

    name: str  # ``prepare``, ``run``, ``train`` or ``analyze``
    words: tuple[str, ...]  # executed in the project's folder; ``python`` means this interpreter

    def shell(self) -> str:
        """Return the command, quoted for a shell."""
        return shlex.join(self.words)


@dataclass(frozen=True, eq=False)
class Run:
    """One training at one scale with one seed."""

    name: str  # readable, ending with ``key``
    key: str  # hash of everything that determines the result
    scale: str
    recipe: Recipe
    choices: Mapping[str, str]  # group of ``configs/`` -> file
    settings: Mapping[str, object]  # changes of the recipe, by dotted key
    composed: Mapping = field(repr=False)  # all settings
    pipeline: Pipeline  # settings of preparation and evaluation
    corpus: str  # folder of the corpus, below the data folder
    languages: tuple[str, str]  # source and target, for translation
    seed: int

    def __eq__(self, other: object) -> bool:
        # Different experiments may lead to the same run.
        return isinstance(other, Run) and (self.scale, self.name) == (other.scale, other.name)

    def __hash__(self) -> int:
        return hash((self.scale, self.name))

    def folder(self, out: Path) -> Path:
        """Return the run's folder below the output folder."""
        return out / self.scale / "runs" / self.name

    def data(self, place: Place) -> Path:
        """Return the folder of the binarised corpus."""
        return place.data / self.corpus / "bin"

    def model(self, place: Place) -> Path:
        """Return the checkpoint to evaluate."""
        return self.folder(place.out) / self.pipeline.model

    def test_file(self, place: Place) -> Path:
        """Return the file with the scores on the test set."""
        return self.folder(place.out) / f"{KINDS[self.pipeline.kind].results[-1]}.json"

    def gpus(self, available: int) -> int:
        """Return the largest usable number of GPUs; 0 at the scale smoke.

        The number divides the recipe's ``optimization.update_freq``, as ``scripts/train.sh``
        requires to keep the batch size.
        """
        batches = int((lookup(self.composed, "optimization.update_freq") or [1])[0])
        most = 0 if self.scale == "smoke" else min(batches, available)
        return max((n for n in range(1, most + 1) if batches % n == 0), default=0)


@dataclass(frozen=True)
class Need:
    """A run that a table or figure needs, and the measurement of its heads."""

    run: Run
    heads: Mapping[str, str]  # options of ``diverse-mha analyze``; empty: no measurement
    against: Run | None = None  # the run to compare with ``run``
    #: Options of a larger measurement, whose output has everything that this need reads.
    larger: Mapping[str, str] | None = None

    @property
    def runs(self) -> tuple[Run, ...]:
        """The run and, if any, the run to compare it with."""
        return (self.run,) if self.against is None else (self.run, self.against)

    def files(self, place: Place) -> tuple[Path, ...]:
        """Return the files that meet the need: its own, then that of the larger measurement."""
        larger = [] if self.larger is None else [replace(self, heads=self.larger).file(place)]
        return (self.file(place), *larger)

    def file(self, place: Place) -> Path:
        """Return the output file of ``diverse-mha analyze``."""
        parts = ["heads", *(value.replace(",", "+") for value in self.heads.values())]
        parts += [f"against-{self.against.key}"] if self.against is not None else []
        return self.run.folder(place.out) / ".".join([*parts, "json"])


def plan(experiment: Experiment, scale: str, seed: int = 1, *, updates: int | None = None) -> Run:
    """Turn an experiment into a run.

    ``updates`` replaces the recipe's number of updates, and then no checkpoints are averaged.
    """
    by_scale = CORPORA[experiment.corpus]
    if scale not in by_scale:
        scales = ", ".join(sorted(by_scale))
        raise UserError(f"--scale {scale}: {experiment.corpus} has only {scales}")
    recipe = by_scale[scale]
    wanted, choices = dict(recipe.settings), {}
    if not recipe.sizes:
        choices["size"] = experiment.size
    elif experiment.size not in recipe.sizes:
        raise UserError(f"{recipe.config} has no size {experiment.size!r} at --scale {scale}")
    choices["method"] = experiment.method
    wanted |= recipe.sizes.get(experiment.size, {}) | _shape(experiment, recipe)
    wanted |= experiment.settings
    base, languages = compose(recipe.config, choices, {}), ("", "")
    if lookup(base, "task.source_lang"):
        languages = (base["task"]["source_lang"], base["task"]["target_lang"])
        languages = languages[::-1] if experiment.reverse != recipe.reverse else languages
        wanted |= {"task.source_lang": languages[0], "task.target_lang": languages[1]}
    if updates is not None:  # a trial has too few checkpoints for an average
        wanted |= {"optimization.max_update": updates, "optimization.max_epoch": 0}
    wanted["common.seed"] = seed
    changed = {}
    for name, value in wanted.items():
        known = lookup(base, name)
        if known != value and not (known is None and value is False and name in _OFF):
            changed[name] = value
    composed = compose(recipe.config, choices, changed)
    pipeline = read_pipeline(composed, recipe.config)
    pipeline = replace(
        pipeline,
        average=pipeline.average if updates is None else 0,
        prepare=recipe.prepare or pipeline.prepare,
    )
    corpus = recipe.folder or str(lookup(composed, "task.data"))
    corpus = corpus.removeprefix("data/").removesuffix("/bin").format(task=experiment.task)
    key = fingerprint(composed, pipeline, corpus)
    name = _name(experiment, recipe, changed, languages, seed, key)
    return Run(
        name, key, scale, recipe, choices, changed, composed, pipeline, corpus, languages, seed
    )


def fingerprint(settings: Mapping, pipeline: Pipeline, corpus: str) -> str:
    """Hash what determines a result: corpus, evaluation, and all settings except ``PLACES``."""
    kept = {k: dict(v) for k, v in settings.items() if k not in GROUPS}
    for group, key in PLACES:
        kept.get(group, {}).pop(key, None)
    average = [pipeline.average, pipeline.average_by] if pipeline.average else 0
    evaluation = [pipeline.beam, pipeline.lenpen, average, list(pipeline.evaluate)]
    text = [kept, pipeline.kind, evaluation, [corpus, list(pipeline.prepare)]]
    text = json.dumps(text, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _shape(experiment: Experiment, recipe: Recipe) -> dict[str, int]:
    shape = {}
    if experiment.width is not None:
        width = int(experiment.width * recipe.width)
        shape |= {"embed_dim": width, "ffn_embed_dim": width * recipe.ffn}
    if experiment.heads is not None:
        shape["attention_heads"] = experiment.heads
    return both_sides(**shape)


def _name(experiment, recipe, changed, languages, seed, key) -> str:
    parts = [recipe.config]
    if any(languages):
        parts += ["-".join(languages)]
    parts += [experiment.task] if experiment.task else []
    parts += [experiment.size] if experiment.size not in ("base", "iwslt") else []
    parts += [experiment.method]
    skip = set(recipe.settings) | set(recipe.sizes.get(experiment.size, {}))
    for name, value in changed.items():
        if (name in skip and name not in experiment.settings) or name.startswith(_UNNAMED):
            continue
        # A value that encoder and decoder share is stated once.
        short = name.split(".")[-1].replace("encoder_", "").replace("decoder_", "")
        text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
        parts.append(f"{short}={text}".replace(",", "+"))
    return ".".join([*dict.fromkeys(parts), f"seed{seed}", key]).replace("/", "_")


def prepare(run: Run, place: Place) -> Step:
    """Return the command that prepares a run's corpus."""
    script, *words = run.pipeline.prepare
    words = [word.replace(DATA, str(place.data)) for word in words]
    if place.data != ROOT / "data" and "--out" not in words:
        words += ["--out", str(place.data / run.corpus.partition("/")[0])]
    return Step("prepare", ("bash", f"data-prep/{script}", *words))


def carry_out(run: Run, place: Place) -> Step:
    """Return the command that trains, averages (if the paper does) and evaluates a run."""
    return Step("run", ("bash", "scripts/run.sh", *recipe_words(run, place)))


def train(run: Run, place: Place) -> Step:
    """Return the command that trains a run."""
    return Step("train", ("bash", "scripts/train.sh", "--config", *recipe_words(run, place)))


def recipe_words(run: Run, place: Place) -> list[str]:
    """Return a run's recipe, choices and settings, as ``scripts/run.sh`` takes them."""
    # One GPU needs --processes too: without it, fairseq would use all GPUs and larger batches.
    words = [run.recipe.config, *(["--processes", str(place.gpus)] if place.gpus else [])]
    words += [f"{group}={choice}" for group, choice in run.choices.items()]
    # Speed and scores are read from the log, which must be in JSON.
    settings = dict(run.settings) | {"common.log_format": "json"}
    if not place.gpus:
        fp16 = settings.get("common.fp16", lookup(run.composed, "common.fp16"))
        status = read_status(run.folder(place.out))
        if fp16 and not (status and status.finished):
            cure = "give --no-bf16 for float32 on the CPU, or --bf16"
            raise UserError(f"common.fp16 needs a GPU; {cure}")
        settings["common.cpu"] = True
    settings["task.data"] = _short(run.data(place))
    if place.plugin is not None:
        settings["common.user_dir"] = str(place.plugin)
    settings["checkpoint.save_dir"] = _short(run.folder(place.out))
    # With an explicit value, the training does not choose the precision by the processor.
    if lookup(run.composed, "common.bf16") is not None:
        settings["common.bf16"] = lookup(run.composed, "common.bf16")
    if run.pipeline.average != (lookup(run.composed, "scoring.average") or 0):
        settings["scoring.average"] = run.pipeline.average
    return [*words, *(f"{name}={spell(value)}" for name, value in settings.items())]


def analyze(need: Need, place: Place) -> Step:
    """Return the command that measures heads over the validation set."""
    words = ["python", "-m", "diverse_mha.cli", "analyze"]
    words += [_short(need.run.model(place)), _short(need.run.data(place))]
    words += [] if place.gpus else ["--cpu"]
    words += ["--user-dir", str(place.plugin)] if place.plugin is not None else []
    for name, value in need.heads.items():
        words += [f"--{name}", value]
    if need.against is not None:
        words += ["--against", _short(need.against.model(place))]
    return Step("analyze", (*words, "--output", _short(need.file(place))))


def _short(path: Path) -> str:
    """Return a path relative to the project's folder, where commands run."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
