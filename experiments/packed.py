"""The study's runs: packed into ``results/``, read from there, and written as CSV."""

import csv
import io
import json
import lzma
import re
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path

from diverse_mha.common.tables import csv_text
from diverse_mha.evaluation.comparison.runs import Scored, scores_of
from diverse_mha.training.log import read_log
from experiments.experiments import Row, Table
from experiments.fill import Choices
from experiments.measures import MEASURES
from experiments.papers import PAPERS
from experiments.plan import Run
from experiments.results import valid_nll

#: What is packed of a run, and of its translations of other test sets.
FILES = ("result.json", "train.log", "heads.*.json", "test.json", "test.hyp.detok")
MORE = ("more.json", "more.hyp.detok")
SIDE_BY_SIDE = "-sentences.txt"
HEADS = ("svcca", "cka", "exp_d.subspace", "exp_d.output", "jsd")
#: What marks a line of a validation in a log, and what is not packed of it and of the heads.
VALIDATED = '"valid_num_updates"'
_SPEED = re.compile("valid_(wps|wpb|bsz|best_.*)")
_LEFT_OUT = ("coefficients", "pairs", "kept", "per_row", "made")


@dataclass(frozen=True, eq=False)
class Kept:
    """A run of the study that was kept."""

    run: Run
    table: Table
    row: Row
    folder: Path
    float32: bool

    @cached_property
    def result(self) -> dict:
        """What the run scored, and how it was made."""
        return json.loads((self.folder / "result.json").read_text(encoding="utf-8"))

    @cached_property
    def nll(self) -> float | None:
        """Validation loss of the best checkpoint, in bits."""
        return valid_nll(self.run, self.folder)

    @cached_property
    def validation(self) -> list[dict]:
        """All validations of its log."""
        return read_log(self.folder / "train.log")["validation"]

    @cached_property
    def heads(self) -> list[float]:
        """The measures of its heads."""
        measures = [MEASURES[f"heads.{name}"] for name in HEADS]
        file = self.folder / f"heads.{measures[0].heads['measures'].replace(',', '+')}.json"
        content = json.loads(file.read_text(encoding="utf-8"))
        return [measure.read(content) for measure in measures]

    @property
    def more_folder(self) -> Path:
        """Where its translations of other test sets are."""
        return self.folder.parents[2] / "other-tests" / self.folder.name.rpartition(".")[0]

    @cached_property
    def more(self) -> dict:
        """Its scores on other test sets, if it has any."""
        file = self.more_folder / "more.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


@cache
def scored(kept: Kept, reference: Path) -> Scored:
    """Score a run's translations of the test set again."""
    found = scores_of(kept.folder / "test.json", kept.result["scores"]["test"], reference)
    return Scored(str(kept.folder), kept.run.seed, *found)


def read_runs(folder: Path) -> list[Kept]:
    """Find the runs of the study below a folder, in the order of the tables, rows and seeds."""
    stems = {}
    for pair in ((table, row) for table in PAPERS["study"].values() for row in table.rows):
        name = Choices("small").run(pair[1].cells[0].experiment, pair[0], 1).name
        stems.setdefault(name.rpartition(".seed")[0], pair)  # tables share runs: the first counts
    found, order = [], list(stems.values())
    for path in (file.parent for file in folder.glob("small/runs/*/result.json")):
        table, row = stems.get(path.name.rpartition(".seed")[0], (None, None))
        if table is not None:
            result = json.loads((path / "result.json").read_text(encoding="utf-8"))
            float32 = result["changed"].get("common.bf16") is False
            choices = Choices("small", bf16=False if float32 else None)
            run = choices.run(row.cells[0].experiment, table, result["seed"])
            if run.name == path.name:
                found.append(Kept(run, table, row, path, float32))
    return sorted(found, key=lambda k: (order.index((k.table, k.row)), k.float32, k.run.seed))


def runs_csv(runs: Iterable[Kept], reference: Path, before: str) -> str:
    """Write a row a run; chrF, where its reference is not there, as ``before`` has it."""
    known = {row["run"]: row["chrf"] for row in csv.DictReader(io.StringIO(before))}
    rows = []
    for kept in runs:
        result, scores, made = kept.result, kept.result["scores"], kept.result["versions"]
        test, valid = scores.get("test", {}), scores.get("valid", {})
        subsets, chrf = scores.get("accuracy", {}).get("subsets", {}), known.get(kept.run.key, "")
        if "sacrebleu" in test and reference.is_file():
            chrf = round(scored(kept, reference).scores["chrF"], 4)
        overrides = (f"{k}={v}" for k, v in {**result["choices"], **result["changed"]}.items())
        row = {
            "run": kept.run.key,
            "table": kept.table.name,
            "row": kept.row.name,
            "precision": "float32" if kept.float32 else "bfloat16",
            "seed": kept.run.seed,
            "recipe": result["recipe"],
            "overrides": " ".join(overrides),
            "updates": result["updates"],
            "parameters": result["parameters"],
            "sacrebleu": test.get("sacrebleu"),
            "tokenised_bleu": test.get("tokenised_bleu"),
            "chrf": chrf,
            "more_sacrebleu": kept.more.get("sacrebleu"),
            "more_tokenised_bleu": kept.more.get("tokenised_bleu"),
            "test_perplexity": test.get("perplexity"),
            "valid_perplexity": valid.get("perplexity"),
            "logged_perplexity": result["valid_perplexity"],
            "logged_nll": kept.nll,
        }
        names = ["valid", *(f"test{n}" for n in range(1, 13))]
        row |= {f"accuracy_{n}": subsets.get(n, {}).get("accuracy") for n in names}
        row |= dict(zip((name.replace(".", "_") for name in HEADS), kept.heads, strict=True))
        row |= {
            "processor_seconds": result["seconds"].get("processor"),
            "processor_seconds_per_update": result.get("processor_seconds_per_update"),
            "updates_per_second": result["steps_per_second"],
            "commit": made["git_commit"],
            "machine": result["hardware"]["processor"],
            "finished": result["finished"],
        }
        rows.append(row)
    return csv_text([rows[0], *(row.values() for row in rows)])


def curves_csv(runs: Iterable[Kept]) -> str:
    """Write a row a validation; the packed logs have what else was logged."""
    rows: list[tuple] = [("run", "num_updates", "nll_loss", "accuracy")]
    for kept in runs:
        for entry in kept.validation:
            nll = entry.get("nll_loss", entry["loss"])  # language models log it as loss
            cells = (int(entry["num_updates"]), nll, entry.get("accuracy", ""))
            rows.append((kept.run.key, *cells))
    return csv_text(rows)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive of runs."""
    with tarfile.open(archive) as packed:
        # Python before 3.11.4, as in Debian 12, has no filter; the archive is the project's own.
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        packed.extractall(folder, **safely)
    for file in folder.glob(f"*{SIDE_BY_SIDE}"):
        names, *lines = file.read_bytes().split(b"\n")
        files = names.decode().split("\t")
        for number, name in enumerate(files):
            (folder / name).write_bytes(b"\n".join([*lines[number :: len(files)], b""]))
        file.unlink()


def pack(runs: Sequence[Kept]) -> bytes:
    """Return an archive of runs, the same bytes for the same files."""
    found = [path for kept in runs for name in FILES for path in kept.folder.glob(name)]
    found += [path for kept in runs for name in MORE for path in kept.more_folder.glob(name)]
    root = runs[0].folder.parents[2]
    content = {
        path.relative_to(root).as_posix(): trimmed(path)
        for path in sorted(found, key=lambda path: (path.name, path))  # like beside like
    }
    content |= side_by_side(content)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, what in content.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(what), 0o644
            archive.addfile(member, io.BytesIO(what))
    return lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def side_by_side(content: dict[str, bytes]) -> dict[str, bytes]:
    """Take all translations out, to one file a test set: names, then each sentence by all.

    The archive is an eighth smaller so.
    """
    sets: dict[int, dict[str, list[bytes]]] = {}
    for name in [name for name in content if name.endswith(".detok")]:
        lines = content.pop(name).split(b"\n")[:-1]
        sets.setdefault(len(lines), {})[name] = lines
    made = {}
    for length, files in sets.items():
        sentences = chain.from_iterable(zip(*files.values(), strict=True))
        made[f"{length}{SIDE_BY_SIDE}"] = b"\n".join(["\t".join(files).encode(), *sentences])
    return made


def trimmed(path: Path) -> bytes:
    """Read a file without what no table needs: steps and speeds, numbers of single pairs."""
    content = path.read_bytes()
    if path.name == "train.log":
        lines = content.decode(errors="replace").splitlines()
        kept = (json.loads(line[line.index("{") :]) for line in lines if VALIDATED in line)
        texts = ({k: v for k, v in e.items() if not _SPEED.match(k)} for e in kept)
        return "".join(f"{json.dumps(entry)}\n" for entry in texts).encode()
    if path.name.startswith("heads."):
        rounded = _rounded(json.loads(content))
        return (json.dumps(rounded, separators=(",", ":"), ensure_ascii=False) + "\n").encode()
    return content


def _rounded(value):
    if isinstance(value, dict):
        kept = (key for key in value if not key.startswith(_LEFT_OUT))
        return {key: _rounded(value[key]) for key in kept}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return round(value, 5) if isinstance(value, float) else value
