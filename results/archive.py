"""The archive of the study's runs: packs and unpacks it, and writes its figures as CSV."""

import csv
import io
import json
import lzma
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import ROOT, sha256_of, write_files
from diverse_mha.common.tables import csv_text
from diverse_mha.evaluation.comparison.runs import Scored, scores_of
from diverse_mha.training.read_log import read_log
from experiments.measures import MEASURES
from experiments.numbers import Choices, valid_nll
from experiments.papers import PAPERS, Row, Table
from experiments.runs import Run

ARCHIVE, RUNS, CURVES = (ROOT / "results" / n for n in ("runs.tar.xz", "runs.csv", "curves.csv"))
#: Files of a run that are packed, and of its translations of other test sets.
FILES = ("result.json", "train.log", "heads.*.json", "test.json", "test.hyp.detok")
MORE = ("more.json", "more.hyp.detok")
SIDE_BY_SIDE = "-sentences.txt"
HEADS = ("svcca", "cka", "exp_d.subspace", "exp_d.output", "jsd")
#: Text in a validation's line of a log; keys of this line, and of heads, that are not packed.
VALIDATED = '"valid_num_updates"'
_SPEED = re.compile("valid_(wps|wpb|bsz|best_.*)")
_BEFORE_DATA = re.compile(rb"/[^\s'\"]*/(?=data/)")  # path of the clone on the packing machine
_LEFT_OUT = ("coefficients", "pairs", "kept", "per_row", "made")


@dataclass(frozen=True, eq=False)
class RunFolder:
    """A folder of a run of the study."""

    run: Run
    table: Table
    row: Row
    folder: Path
    result: dict
    float32: bool

    @cached_property
    def heads(self) -> list[float]:
        """The measures of the run's heads."""
        measures = [MEASURES[f"heads.{name}"] for name in HEADS]
        file = self.folder / f"heads.{measures[0].heads['measures'].replace(',', '+')}.json"
        if not file.is_file():
            raise UserError(
                f"{file}: is missing; give diverse-mha reproduce study {self.table.name} --scale "
                f"small --seeds {self.run.seed} --rows {self.row.name}"
                f"{' --no-bf16' * self.float32} again, which measures it"
            )
        content = _read(file)
        return [measure.read(content) for measure in measures]

    @property
    def more_folder(self) -> Path:
        """Folder of the run's translations of other test sets."""
        return self.folder.parents[2] / "other-tests" / self.folder.name.rpartition(".")[0]


def run_name(table: Table, row: Row) -> str:
    """Return the name of a row's runs, without the seed."""
    return Choices("small").run(row.cells[0].experiment, table, 1).name.rpartition(".seed")[0]


@cache
def publishing_rows() -> dict[str, tuple[Table, Row]]:
    """Return the table and row that publish runs, by the runs' name: the first that has them."""
    rows: dict[str, tuple[Table, Row]] = {}
    for table in PAPERS["study"].values():
        for row in table.rows:
            rows.setdefault(run_name(table, row), (table, row))
    return rows


def read_runs(folder: Path) -> list[RunFolder]:
    """Read the runs of the study below a folder, by table, row, precision and seed."""
    stems = publishing_rows()
    runs, order = [], list(stems.values())
    for path in (file.parent for file in folder.glob("small/runs/*/result.json")):
        table, row = stems.get(path.name.rpartition(".seed")[0], (None, None))
        if table is not None:
            result = _read(path / "result.json")
            float32 = result["changed"].get("common.bf16") is False
            choices = Choices("small", bf16=False if float32 else None)
            run = choices.run(row.cells[0].experiment, table, result["seed"])
            if run.name == path.name:
                runs.append(RunFolder(run, table, row, path, result, float32))
    return sorted(runs, key=lambda r: (order.index((r.table, r.row)), r.float32, r.run.seed))


def csv_files(runs: Sequence[RunFolder], data: Path) -> dict[Path, str]:
    """Return the contents of both CSV files, in which the column ``run`` identifies a run.

    ``curves.csv`` has one row for each validation. If the folder ``data`` of prepared corpora lacks
    the reference of a run, its chrF is taken from the existing ``runs.csv``, else from its result.
    """
    before = RUNS.read_text(encoding="utf-8") if RUNS.is_file() else ""
    chrf = {row["run"]: row["chrf"] for row in csv.DictReader(io.StringIO(before))}
    rows = [_figures(one, data, chrf.get(one.run.key, "")) for one in runs]
    curves: list[tuple] = [("run", "num_updates", "nll_loss", "accuracy")]
    for one in runs:
        for entry in read_log(one.folder / "train.log")["validation"]:
            nll = entry.get("nll_loss", entry["loss"])  # language models log this loss as ``loss``
            accuracy = entry.get("accuracy", "")
            curves.append((one.run.key, int(entry["num_updates"]), nll, accuracy))
    return {RUNS: csv_text([rows[0], *(row.values() for row in rows)]), CURVES: csv_text(curves)}


def _figures(one: RunFolder, data: Path, chrf: str) -> dict:
    """Return a row of ``runs.csv``."""
    result, scores = one.result, one.result["scores"]
    test, valid = scores.get("test", {}), scores.get("valid", {})
    if "sacrebleu" in test:
        try:
            reference = reference_of(one.folder, data)
        except UserError:
            chrf = chrf or test.get("chrf", "")
        else:
            measured = score_again(one.folder, one.run.seed, reference)
            chrf = round(measured.scores["chrF"], 4)
    more = one.more_folder / "more.json"
    more = _read(more) if more.is_file() else {}
    overrides = (f"{k}={v}" for k, v in {**result["choices"], **result["changed"]}.items())
    row = {
        "run": one.run.key,
        "table": one.table.name,
        "row": one.row.name,
        "precision": "float32" if one.float32 else "bfloat16",
        "seed": one.run.seed,
        "recipe": result["recipe"],
        "overrides": " ".join(overrides),
        "updates": result["updates"],
        "parameters": result["parameters"],
        "sacrebleu": test.get("sacrebleu"),
        "tokenised_bleu": test.get("tokenised_bleu"),
        "chrf": chrf,
        "more_sacrebleu": more.get("sacrebleu"),
        "more_tokenised_bleu": more.get("tokenised_bleu"),
        "test_perplexity": test.get("perplexity"),
        "valid_perplexity": valid.get("perplexity"),
        "logged_perplexity": result["valid_perplexity"],
        "logged_nll": valid_nll(one.run, one.folder),
    }
    subsets = scores.get("accuracy", {}).get("subsets", {})
    names = ["valid", *(f"test{n}" for n in range(1, 13))]
    row |= {f"accuracy_{n}": subsets.get(n, {}).get("accuracy") for n in names}
    for name in ("accuracy", "accuracy.seen", "accuracy.unseen"):
        value = MEASURES[name].read(result)
        row[name.replace(".", "_")] = None if value is None else round(value, 4)
    row |= dict(zip((name.replace(".", "_") for name in HEADS), one.heads, strict=True))
    return row | {
        "processor_seconds": result["seconds"].get("processor"),
        "processor_seconds_per_update": result.get("processor_seconds_per_update"),
        "updates_per_second": result["steps_per_second"],
        "commit": result["versions"]["git_commit"],
        "machine": result["hardware"]["processor"],
        "finished": result["finished"],
    }


def reference_of(folder: Path, data: Path) -> Path:
    """Return the reference of a run's test set below a folder of prepared corpora.

    Raises:
        UserError: it is missing, or the corpus there was prepared from another text. This is known
            from the recorded hash of the source, which older runs lack.
    """
    result = _read(folder / "result.json")
    test = result["scores"]["test"]
    corpus = Path(test["data"]).parent.name
    source, reference = (
        data / corpus / "raw" / f"{test['subset']}.{language}"
        for language in (result["settings"]["task"]["source_lang"], test["target_lang"])
    )
    for text in (source, reference):
        if not text.is_file():
            raise UserError(
                f"{text}: is missing, so BLEU of {corpus} cannot be tested; run "
                f"data-prep/prepare-{corpus}.sh, or give --data"
            )
    if test.get("source_sha256") not in (None, sha256_of(source)):
        raise UserError(
            f"{source}: is not the text that the published runs translated, so BLEU of {corpus} "
            f"cannot be tested; give --data with their release of {corpus}"
        )
    return reference


def score_again(folder: Path, seed: int, reference: Path) -> Scored:
    """Score a run's translations of the test set, with the counts of each sentence."""
    file = folder / "test.json"
    return Scored(str(folder), seed, *scores_of(file, _read(file), reference))


def unpack(folder: Path, archive: Path = ARCHIVE) -> None:
    """Unpack the archive into a folder."""
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


def unpack_missing(folder: Path) -> str:
    """Unpack the runs that a folder lacks; return a line that counts old and new runs."""
    with tempfile.TemporaryDirectory() as place:
        unpack(Path(place))
        runs = [run.relative_to(place) for run in Path(place).glob("small/runs/*")]
        others = [run.relative_to(place) for run in Path(place).glob("other-tests/*")]
        missing = [run for run in runs + others if not (folder / run).exists()]
        for run in missing:
            part = folder / run.with_name(f".{run.name}.part")  # a run is there as a whole or not
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(Path(place) / run, part)
            part.rename(folder / run)
    left = len(runs) - sum(run in runs for run in missing)
    return f"{len(runs)} runs: {folder}" + (f"; {left} existed and are unchanged" if left else "")


def write(folder: Path, data: Path) -> str:
    """Write archive and CSV files from a folder of runs; return a line that names them.

    Raises:
        UserError: the folder has no run of the study, lacks a published one, or lacks the measures
            of a run's heads. Nothing is written then.
    """
    runs = read_runs(folder)
    if not runs:
        raise UserError(f"--pack {folder}: has no run of the study in small/runs; name another")
    with RUNS.open(encoding="utf-8", newline="") as lines:
        lacking = {row["run"] for row in csv.DictReader(lines)} - {one.run.key for one in runs}
    if lacking:
        raise UserError(
            f"--pack {folder}: lacks {len(lacking)} of the published runs, such as "
            f"{min(lacking)}; give --unpack {folder} first"
        )
    for one in runs:
        _ = one.heads  # raises an error that names the run's own folder
    packed = pack(runs)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "runs.tar.xz"
        copy.write_bytes(packed)
        unpack(Path(place), copy)  # packing rounds some figures
        files = csv_files(read_runs(Path(place)), data)
    write_files({ARCHIVE: packed} | {path: text.encode() for path, text in files.items()})
    return f"{len(runs)} runs: {ARCHIVE}, {RUNS}, {CURVES}"


def pack(runs: Sequence[RunFolder]) -> bytes:
    """Return an archive of runs, the same bytes for the same files."""
    paths = [path for one in runs for name in FILES for path in one.folder.glob(name)]
    paths += [path for one in runs for name in MORE for path in one.more_folder.glob(name)]
    root = runs[0].folder.parents[2]
    content = {
        path.relative_to(root).as_posix(): _trimmed(path)
        for path in sorted(paths, key=lambda path: (path.name, path))  # similar files are adjacent
    }
    content |= dict(_side_by_side(content))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    return lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def _side_by_side(content: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Move the translations of each test set to one file: names, then each sentence by all models.

    This makes the archive an eighth smaller.
    """
    sets: dict[int, dict[str, list[bytes]]] = {}
    for name in [name for name in content if name.endswith(".detok")]:
        lines = content.pop(name).split(b"\n")[:-1]
        sets.setdefault(len(lines), {})[name] = lines
    for length, files in sets.items():
        sentences = chain.from_iterable(zip(*files.values(), strict=True))
        yield f"{length}{SIDE_BY_SIDE}", b"\n".join(["\t".join(files).encode(), *sentences])


def _trimmed(path: Path) -> bytes:
    """Read a file without what no table needs: steps, speeds, single pairs, a machine's folders."""
    content = path.read_bytes()
    if path.suffix == ".json":
        content = _BEFORE_DATA.sub(b"", content)
    if path.name == "train.log":
        lines = content.decode(errors="replace").splitlines()
        entries = (json.loads(line[line.index("{") :]) for line in lines if VALIDATED in line)
        entries = ({k: v for k, v in e.items() if not _SPEED.match(k)} for e in entries)
        return "".join(f"{json.dumps(entry)}\n" for entry in entries).encode()
    if path.name.startswith("heads."):
        rounded = _rounded(json.loads(content))
        return (json.dumps(rounded, separators=(",", ":"), ensure_ascii=False) + "\n").encode()
    return content


def _rounded(value):
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items() if not k.startswith(_LEFT_OUT)}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return round(value, 5) if isinstance(value, float) else value


def _read(file: Path) -> dict:
    return json.loads(file.read_text(encoding="utf-8"))


def differing_cells(files: Iterable[tuple[Path, str]]) -> Iterator[str]:
    """Yield a message for each cell of the CSV files that differs from the runs' value."""
    for path, text in files:
        (head, *ours), (other_head, *others) = (
            list(csv.reader(io.StringIO(one))) for one in (text, path.read_text(encoding="utf-8"))
        )
        if head != other_head or len(ours) != len(others):
            yield f"{path}: has other columns or rows than the runs; make it again with --pack"
            continue
        for number, (row, other) in enumerate(zip(ours, others, strict=True), start=2):
            for column, mine, cell in zip(head, row, other, strict=True):
                if mine != cell:
                    yield f"{path}:{number}: {column}: {cell!r}, the runs say {mine!r}"
