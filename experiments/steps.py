"""The commands of a run: prepare, train, average, evaluate."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import CONFIGS, ROOT
from diverse_mha.training.compose import compose, groups_of, lookup
from diverse_mha.training.log import status_of
from diverse_mha.training.train import hydra_quoted
from experiments.plan import Need, Run
from experiments.scales import DATA

# Words that Hydra's grammar takes without quotes, and takes as words.
_PLAIN = re.compile(r"[A-Za-z/][\w./-]*", re.ASCII)
_CLI = ("python", "-m", "diverse_mha.cli")


@dataclass(frozen=True)
class Step:
    """One command."""

    name: str  # ``prepare``, ``train``, ``average``, ``evaluate`` or ``analyze``
    words: tuple[str, ...]  # to be run in the project's folder; ``python`` is the running one

    def shell(self) -> str:
        """Return the command, quoted for a shell."""
        return shlex.join(self.words)


@dataclass(frozen=True)
class Environment:
    """Folders and devices."""

    out: Path  # output
    data: Path  # prepared corpora
    gpus: int = 0  # 0: train on the CPU
    plugin: Path | None = None  # the user's package, imported by every command


def usable(batches: int, processes: int) -> int:
    """Return the largest divisor of ``batches`` up to ``processes``, 0 for no processes.

    So ``scripts/train.sh`` can divide the recipe's ``optimization.update_freq`` by it.
    """
    return max((n for n in range(1, min(batches, processes) + 1) if batches % n == 0), default=0)


def data_folder(run: Run, place: Environment) -> Path:
    """Return the binarised data of a run."""
    return place.data / run.corpus / "bin"


def prepare(run: Run, place: Environment) -> Step:
    """Return the step that prepares a run's corpus."""
    script, *words = run.pipeline.prepare
    words = [word.replace(DATA, str(place.data)) for word in words]
    if not script.endswith(".sh"):  # made from the demo corpus
        module = "experiments.stand_in"
        return Step("prepare", ("python", "-m", module, script, str(place.data)))
    if place.data != ROOT / "data" and "--out" not in words:
        words += ["--out", str(place.data / run.corpus.partition("/")[0])]
    return Step("prepare", ("bash", f"data-prep/{script}", *words))


def train(run: Run, place: Environment) -> Step:
    """Return the step that trains or resumes a run."""
    # Given even for one: fairseq would use all GPUs for larger batches.
    words = ["--processes", str(place.gpus)] if place.gpus else []
    words += ["--config", _short(CONFIGS / f"{run.recipe.config}.yaml")]
    known = groups_of(run.recipe.config)
    for group, choice in run.choices.items():
        words.append(f"{'' if group in known else '+'}{group}={choice}")
    settings = dict(run.settings) | {"common.log_format": "json"}  # read for speed and scores
    if not place.gpus:
        fp16 = lookup(run.composed, "common.fp16")
        if fp16 and not status_of(run.folder(place.out)).finished:
            cure = "give --no-bf16 for float32 on the CPU, or --bf16"
            raise UserError(f"common.fp16 needs a GPU; {cure}")
        settings["common.cpu"] = True
    data = str(lookup(run.composed, "task.data")).replace("${hydra:runtime.cwd}", str(ROOT))
    if data_folder(run, place) != Path(data):
        settings["task.data"] = str(data_folder(run, place))
    if place.plugin is not None:
        settings["common.user_dir"] = str(place.plugin)
    settings["checkpoint.save_dir"] = _short(run.folder(place.out))
    if lookup(run.composed, "common.bf16") is not None:  # else the processor decides
        settings["common.bf16"] = lookup(run.composed, "common.bf16")
    there = compose(run.recipe.config, run.choices, {})
    for name, value in settings.items():
        group, key = name.split(".")
        words.append(f"{'' if key in there.get(group, {}) else '++'}{name}={_spell(value)}")
    return Step("train", ("bash", "scripts/train.sh", *words))


#: By kind of model: script and names of the results, the test set's last.
_EVALUATIONS = {
    "translation": ("evaluate.sh", ("test",)),
    "language_model": ("evaluate-lm.sh", ("valid", "test")),
    "classifier": ("evaluate-classifier.sh", ("accuracy",)),
}


def carry_out(run: Run, place: Environment) -> list[Step]:
    """Return the steps that train, average (if the paper does) and evaluate a run."""
    folder, pipeline = run.folder(place.out), run.pipeline
    steps = [train(run, place)]
    if pipeline.average:
        words = [_short(folder), "--last", str(pipeline.average)]
        words += ["--by", pipeline.average_by, "--output", _short(folder / "averaged.pt")]
        steps.append(Step("average", ("bash", "scripts/average.sh", *words)))
    script, names = _EVALUATIONS[pipeline.kind]
    for name in names:
        words = [*_model_and_data(run, place)]
        if pipeline.kind == "translation":
            words += ["--target-lang", run.languages[1]]
        elif pipeline.kind == "language_model":
            words += ["--subset", name]
        words += [*pipeline.options, "--output", _short(folder / f"{name}.json")]
        steps.append(Step("evaluate", ("bash", f"scripts/{script}", *words)))
    return steps


def test_file(run: Run, place: Environment) -> Path:
    """Return the file with the scores on the test set."""
    return run.folder(place.out) / f"{_EVALUATIONS[run.pipeline.kind][-1][-1]}.json"


def checkpoint(run: Run, place: Environment) -> Path:
    """Return the checkpoint to evaluate."""
    return run.folder(place.out) / ("averaged.pt" if run.pipeline.average else "checkpoint_best.pt")


def heads_file(need: Need, place: Environment) -> Path:
    """Return the output of :func:`analyze`."""
    parts = ["heads", *(value.replace(",", "+") for value in need.heads.values())]
    parts += [f"against-{need.against.key}"] if need.against is not None else []
    return need.run.folder(place.out) / ".".join([*parts, "json"])


def analyze(need: Need, place: Environment) -> Step:
    """Return the step that measures heads over the validation set."""
    words = ["analyze", *_model_and_data(need.run, place)]
    for name, value in need.heads.items():
        words += [f"--{name}", value]
    if need.against is not None:
        words += ["--against", _short(checkpoint(need.against, place))]
    words += ["--output", _short(heads_file(need, place))]
    return Step("analyze", (*_CLI, *words))


def _model_and_data(run: Run, place: Environment) -> Iterator[str]:
    """Yield the first words of every command that loads a run's model."""
    yield from (_short(checkpoint(run, place)), _short(data_folder(run, place)))
    if not place.gpus:
        yield "--cpu"
    if place.plugin is not None:
        yield from ("--user-dir", str(place.plugin))


def _short(path: Path) -> str:
    """Return a path relative to the project's folder, where commands run."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def _spell(value: object) -> str:
    """Return a value in Hydra's grammar."""
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        return hydra_quoted(value)
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_spell, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
