"""A folder with valid and broken files, in which commands with wrong input run."""

import shutil

import pytest
import torch
from fairseq.data import Dictionary

from tests.analysis.conftest import data, pairs, save  # noqa: F401 (fixtures)
from tests.toy import write_split

SENTENCES = 40  # size of the test set


@pytest.fixture(scope="session")
def whole(tmp_path_factory, data, pairs, save):  # noqa: F811
    """The folder with valid and broken files; :func:`world` makes it the current folder."""
    folder = tmp_path_factory.mktemp("world")
    shutil.copytree(data, folder / "bin")
    shutil.copytree(pairs, folder / "pairs")
    for path in sorted((folder / "bin").glob("valid*")):
        shutil.copy(path, path.with_name(path.name.replace("valid", "test")))
        shutil.copy(path, path.with_name(path.name.replace("valid", "train")))
    _checkpoints(folder, save)
    _texts(folder)
    _data(folder)
    (folder / "save").mkdir()
    return folder


@pytest.fixture
def world(whole, monkeypatch):
    """The folder ``whole``, as the current folder."""
    monkeypatch.chdir(whole)
    return whole


def _checkpoints(folder, save):  # noqa: F811
    shutil.copy(save("good", "transformer_disagree"), folder / "best.pt")
    lm = save("lm", "transformer_lm_disagree", task="language_modeling")
    shutil.copy(lm, folder / "lm.pt")
    pairs_folder = folder / "pairs"
    task = "sentence_classification"
    classifier = save("classifier", "sentence_classifier", task=task, data=pairs_folder)
    shutil.copy(classifier, folder / "classifier.pt")
    state = torch.load(folder / "best.pt", weights_only=True)
    whole = (folder / "best.pt").read_bytes()
    (folder / "cut.pt").write_bytes(whole[: len(whole) // 2])
    torch.save({"weights": torch.ones(2)}, folder / "nomodel.pt")
    torch.save(state | {"cfg": None}, folder / "nocfg.pt")
    torch.save(state | {"cfg": {"model": {}}}, folder / "notask.pt")
    names = list(state["model"])
    lacking = {name: state["model"][name] for name in names[:-1]}
    torch.save(state | {"model": lacking}, folder / "lacking.pt")
    for name in ("best", "lm"):
        state = torch.load(folder / f"{name}.pt", weights_only=True)
        for last in list(state["model"].values())[-3:]:
            last.view(-1)[0] = float("nan")
        torch.save(state, folder / f"nan-{name}.pt")
    (folder / "run").mkdir()
    for name in ("checkpoint1", "checkpoint2", "checkpoint4", "last"):
        shutil.copy(folder / "best.pt", folder / f"run/{name}.pt")


def _texts(folder):
    for part in ("raw", "tok"):
        (folder / part).mkdir()
        (folder / part / "test.tgt").write_text("1 2 3\n" * SENTENCES)
    (folder / "a.txt").write_text("a small house\n" * 3)
    (folder / "b.txt").write_text("a little house\n" * 3)
    (folder / "short.txt").write_text("a house\n" * 2)
    for name in ("latin1.txt", "latin1.yaml"):
        (folder / name).write_bytes("ein schönes Haus\n".encode("latin-1") * 3)
    (folder / "file").write_text("in the way\n")
    (folder / "gold").write_text("0-0\n")
    (folder / "outside").write_text("0-99\n" * SENTENCES)


def _data(folder):
    """Write data folders with one mistake each."""
    for name in "nodict emptydict otherdict baddict badnote cutbin hollow".split():
        shutil.copytree(folder / "bin", folder / name)
    for path in (folder / "nodict").glob("dict*"):
        path.unlink()
    (folder / "emptydict/dict.tgt.txt").write_text("")
    for path in (folder / "otherdict").glob("dict*"):
        with path.open("a") as file:
            file.write("more 1\n")
    for language in ("src", "tgt"):
        (folder / f"baddict/dict.{language}.txt").write_text("word count\nword\n")
    (folder / "baddict/dict.txt").write_text("word count\nword\n")
    (folder / "badnote/corpus.json").write_text("{")
    for path in (folder / "cutbin").glob("*.bin"):
        path.write_bytes(path.read_bytes()[:20])
    write_split(folder / "hollow/none", Dictionary(), [])
    for name in ("badpairs", "hollowpairs"):
        shutil.copytree(folder / "pairs", folder / name)
    for name in ("input0", "input1", "label"):
        write_split(folder / "hollowpairs" / name / "none", Dictionary(), [])
    (folder / "badpairs/label/dict.txt").write_text("x one\n")
    own = folder / "own"
    own.mkdir()
    for split in ("train", "valid", "test"):
        (own / f"{split}.de").write_text("ein kleines Haus\n" * 3)
        (own / f"{split}.en").write_text("a small house\n" * (2 if split == "valid" else 3))
        (own / f"{split}.txt").write_bytes(b"" if split == "test" else b"a small house\n" * 3)
    published = folder / "logic"
    published.mkdir()
    for length in range(1, 13):
        (published / f"train{length}").write_text("=\ta\ta\n")
    (published / "train1").write_text("=\ta\n")
