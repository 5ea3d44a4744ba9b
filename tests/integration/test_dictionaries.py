"""No command takes another vocabulary of the same size for the model's."""

import re
import shutil
from pathlib import Path

import pytest
import torch

from diverse_mha.fairseq_fixes.dictionaries import KEY
from tests.corpora import scripts
from tests.integration.conftest import PLUGIN, run, train
from tests.reliability import runs

pytestmark = pytest.mark.integration

LAST = "checkpoint_last.pt"
ONCE = ["--max-update", 2, "--no-epoch-checkpoints"]
USER_DIR = ["--user-dir", PLUGIN, "--cpu"]
_SIZE = r"\([\d,]+ symbols, SHA-256 [0-9a-f]{8}\)"
REFUSED = rf"was trained with the (?:\w+ )?dictionary of (.*) {_SIZE}, "
REFUSED += rf"but (.*?)(?: now)? has another {_SIZE}, so that .*; (.*)$"


def reorder(data: Path, pattern: str = "dict*.txt") -> None:
    """Reverse the words of the dictionaries of a data folder, whose sizes stay the same."""
    for file in data.glob(pattern):
        file.write_text("".join(reversed(file.read_text().splitlines(keepends=True))))


def refusal(done) -> tuple[str, str, str]:
    """Return the model's data, the given data and the cure from the one-line error."""
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr, done.stderr[-2000:]
    found = re.search(REFUSED, done.stderr.splitlines()[-1])
    assert found, done.stderr[-2000:]
    return found.groups()


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Folder of a demo corpus, a model of it, and a corpus with as many other subwords."""
    folder = tmp_path_factory.mktemp("corpora")
    scripts.run("demo", "--out", "one", "--pairs", 100, "--merges", 60, cwd=folder)
    shutil.copytree(folder / "one", folder / "two")
    reorder(folder / "two/bin")
    train(folder / "one/bin", folder / "run", *ONCE)
    return folder


COMMANDS = {
    "evaluate": "diverse_mha.cli evaluate CHECKPOINT DATA --cpu --output OUT.json",
    "evaluate-ctranslate2": "diverse_mha.cli evaluate CHECKPOINT DATA --cpu --engine ctranslate2 "
    "--output OUT.json",
    "translate": "diverse_mha.cli translate CHECKPOINT DATA --cpu",
    "translate-fairseq": "diverse_mha.cli translate CHECKPOINT DATA --cpu --engine fairseq",
    "ensemble": "diverse_mha.cli translate CHECKPOINT:CHECKPOINT DATA --cpu",
    "align": "diverse_mha.cli align CHECKPOINT DATA --cpu",
    "analyze": "diverse_mha.cli analyze CHECKPOINT DATA --cpu --output OUT",
    "prune": "diverse_mha.cli prune CHECKPOINT DATA --cpu --heads 1 --output OUT.pt",
    "ctranslate2": "diverse_mha.cli export CHECKPOINT OUT --format ctranslate2 --data DATA",
    "transformers": "diverse_mha.cli export CHECKPOINT OUT --format transformers --data DATA",
    "fairseq-generate": "fairseq_cli.generate DATA --path CHECKPOINT",
    "fairseq-interactive": "fairseq_cli.interactive DATA --path CHECKPOINT --source-lang lm "
    "--target-lang qo",
    "fairseq-validate": "fairseq_cli.validate DATA --path CHECKPOINT --max-tokens 500",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_refuse_the_data_of_another_vocabulary(name, corpora, tmp_path):
    place = {"CHECKPOINT": corpora / "run" / LAST, "DATA": corpora / "two/bin"}
    place["OUT"] = tmp_path / "out"
    command = COMMANDS[name]
    for word, path in place.items():
        command = command.replace(word, str(path))
    more = USER_DIR if "fairseq_cli" in command else []
    done = run(*command.split(), *more, input="Ba.\n", check=False)
    assert refusal(done)[:2] == (str(corpora / "one/bin"), str(corpora / "two/bin"))
    assert not list(tmp_path.iterdir())


def test_what_commands_write_identifies_its_dictionaries(corpora, tmp_path):
    first, data = corpora / "run" / LAST, corpora / "one/bin"
    made = {name: tmp_path / f"{name}.pt" for name in ("average", "prune", "removed", "stock")}
    run("diverse_mha.cli", "average", first, "-o", made["average"])
    prune = ["diverse_mha.cli", "prune", first, data, "--cpu", "--heads", 1, "--output"]
    run(*prune, made["prune"])
    run(*prune, made["removed"], "--remove")
    run("diverse_mha.cli", "export", first, made["stock"], "--format", "fairseq")
    record = torch.load(first, weights_only=True)["extra_state"][KEY]
    assert record.keys() == {"source", "target"}
    for path in made.values():
        assert torch.load(path, weights_only=True)["extra_state"][KEY] == record
        assert refusal(run("diverse_mha.cli", "align", path, corpora / "two/bin", check=False))
    run("fairseq_cli.generate", data, "--path", made["stock"], *USER_DIR, "--max-len-b", 3)


def test_checkpoints_without_a_record_load_with_one_line(corpora, tmp_path):
    state = torch.load(corpora / "run" / LAST, weights_only=True)
    del state["extra_state"][KEY]
    old, data = tmp_path / "old.pt", tmp_path / "data"
    torch.save(state, old)
    # Twice: the conversion by CTranslate2 is kept.
    for _ in range(2):
        command = ["diverse_mha.cli", "translate", old, corpora / "one/bin", "--cpu"]
        done = run(*command, "--max-len-b", 3, input="Ba.\n")
        assert done.stderr.count("not checked whether") == 1
    done = run(*command, "--max-len-b", 3, "--alignments", "1.1", input="Ba.\n")
    assert done.stderr.count("not checked whether") == 1
    # The run's own data is still there.
    done = run("diverse_mha.cli", "align", old, corpora / "two/bin", "--cpu", check=False)
    assert refusal(done)[:2] == (str(corpora / "one/bin/dict.lm.txt"), str(corpora / "two/bin"))
    # Training goes on.
    shutil.copytree(corpora / "one/bin", data)
    done = train(data, tmp_path / "run", "--restore-file", old, "--max-update", 3)
    assert "not checked whether" not in done.stdout + done.stderr, "the copy has its dictionaries"
    assert KEY in torch.load(tmp_path / "run" / LAST, weights_only=True)["extra_state"]


def test_a_run_does_not_resume_on_data_that_was_prepared_anew(corpora, tmp_path):
    shutil.copytree(corpora / "one/bin", tmp_path / "bin")
    train(tmp_path / "bin", tmp_path / "run", *ONCE)
    for file in (tmp_path / "bin").glob("dict*.txt"):  # other frequencies
        file.write_text(re.sub(r" \d+$", " 7", file.read_text(), flags=re.M))
    train(tmp_path / "bin", tmp_path / "run", "--max-update", 3)
    reorder(tmp_path / "bin")
    done = train(tmp_path / "bin", tmp_path / "run", "--max-update", 4, check=False)
    then, now, cure = refusal(done)
    assert then == now == str(tmp_path / "bin") and cure.endswith("give another --save-dir")


def test_fine_tuning_on_other_words_must_be_asked_for(corpora, tmp_path):
    start = corpora / "run" / LAST
    for option in ("--finetune-from-model", "--restore-file"):
        words = [corpora / "two/bin", tmp_path / option, option, start, "--max-update", 3]
        cure = refusal(train(*words, check=False))[2]
        assert "--srcdict" in cure and "--allow-other-dictionary" in cure
        done = train(*words, "--allow-other-dictionary")
        assert "allowed by --allow-other-dictionary" in done.stdout + done.stderr
    # From now on, its words are the new ones.
    train(corpora / "two/bin", tmp_path / option, "--max-update", 4)
    records = (torch.load(p / LAST)["extra_state"][KEY] for p in (start.parent, tmp_path / option))
    assert len({record["source"]["sha256"] for record in records}) == 2


@pytest.mark.parametrize(
    ("arch", "command", "files"),
    [
        ("transformer_lm_disagree", "evaluate-lm", "dict.txt"),
        ("sentence_classifier", "evaluate-classifier", "input0/dict.txt"),
        ("sentence_classifier", "evaluate-classifier", "label/dict.txt"),
    ],
)
def test_language_models_and_classifiers_are_checked(arch, command, files, miniatures, tmp_path):
    words = runs.words(arch, miniatures, tmp_path / "run", "--max-update", 2)
    run("fairseq_cli.train", *words)
    other = tmp_path / "other"
    shutil.copytree(words[0], other)
    reorder(other, files)
    command = ["diverse_mha.cli", command, tmp_path / "run" / LAST]
    run(*command, words[0], "--cpu", "--subset", "valid")
    done = run(*command, other, "--cpu", "--subset", "valid", "--force", check=False)
    assert refusal(done)[:2] == (words[0], str(other))
