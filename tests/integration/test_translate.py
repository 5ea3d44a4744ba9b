"""``diverse-mha translate``, CTranslate2 and BertViz with exported models."""

import math
import os
import re
import shutil
import subprocess

import ctranslate2
import pytest
import torch

from diverse_mha.evaluation.models import open_models
from tests import warm
from tests.corpora import scripts
from tests.docs.blocks import commands
from tests.integration.conftest import PLUGIN, run, slow_imports, train

pytestmark = pytest.mark.integration

SOURCE = "raw/test.lm"  # path of the source text within the demo corpus


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Folder of a small demo corpus, and of a model trained on it for four updates."""
    folder = tmp_path_factory.mktemp("demo")
    scripts.run("demo", "--out", folder, "--pairs", 300, "--merges", 60, cwd=folder)
    train(folder / "bin", folder / "run", "--max-update", 4, "--no-epoch-checkpoints")
    return folder


def translate(folder, text: str, *options, **kwargs):
    command = ["diverse_mha.cli", "translate", folder / "run/checkpoint_last.pt", folder / "bin"]
    return run(*command, "--cpu", "--max-len-b", 20, *options, input=text, **kwargs)


def test_plain_text_and_binarised_data_give_the_same_translations(prepared):
    given = [prepared / "run/checkpoint_last.pt", prepared / "bin"]
    options = ["--cpu", "--max-len-b", 20, "--beam", 3, "--output", prepared / "data.json"]
    run("diverse_mha.evaluation.evaluate", *given, *options)
    expected = (prepared / "data.hyp.detok").read_text().splitlines()
    # The input has an empty line after each sentence, and fills several buffers.
    lines = (prepared / SOURCE).read_text().splitlines()
    more = ["--beam", 3, "--buffer", 7, "--engine", "fairseq"]
    done = translate(prepared, "\n\n".join(lines), *more)
    assert done.stdout.splitlines()[::2] == expected
    assert set(done.stdout.splitlines()[1::2]) == {""}
    assert done.stderr.startswith(f"{2 * len(lines) - 1:,} lines in ")
    assert done.stderr.count("\n") == 1


def test_converting_for_ctranslate2_imports_only_what_text_needs(prepared, tmp_path, monkeypatch):
    checkpoint = shutil.copy(prepared / "run/checkpoint_last.pt", tmp_path)
    command = ["diverse_mha.cli", "translate", checkpoint, prepared / "bin", "--cpu"]
    assert slow_imports(monkeypatch, *command, "--max-len-b", 3, input="vo\n") == set()
    assert (tmp_path / "checkpoint_last.ctranslate2").is_dir()


def test_an_ensemble_of_a_model_and_its_copy_is_named(prepared, tmp_path):
    checkpoint, copy = prepared / "run/checkpoint_last.pt", tmp_path / "best.pt"
    torch.save(torch.load(checkpoint) | {"comment": "a copy"}, copy)
    ensemble = [os.pathsep.join(map(str, (checkpoint, copy))), prepared / "bin", "--cpu"]
    limits = ["--max-len-b", 3, "--beam", 1]
    for done in (
        run("diverse_mha.cli", "translate", *ensemble, *limits, input="vo\n"),
        run("diverse_mha.evaluation.evaluate", *ensemble, *limits, "--output", tmp_path / "x.json"),
    ):
        note = f"note: {copy} has the weights of {checkpoint}, which count twice in the ensemble"
        assert done.stderr.count(note) == 1


def searched(printed: str) -> list[tuple[list[str], list[str], float]]:
    """Return sources, translations and scores from fairseq-generate's output, in corpus order."""
    lines = {kind: re.findall(rf"^{kind}-(\d+)\t(.*)$", printed, re.M) for kind in "SHP"}
    sources, found, scores = (dict(lines[kind]) for kind in "SHP")
    return [
        (
            sources[n].split(),
            found[n].split("\t")[1].split(),
            math.log(2) * sum(map(float, scores[n].split())),  # fairseq prints logarithms to base 2
        )
        for n in sorted(sources, key=int)
    ]


@pytest.mark.long
def test_ctranslate2_gives_the_same_translations_and_scores(tmp_path):
    scripts.run("demo", "--out", ".", "--pairs", 300, "--merges", 90, cwd=tmp_path)
    options = ["--max-update", 30, "--no-epoch-checkpoints", "--lr", "5e-3"]
    train(tmp_path / "bin", tmp_path / "run", *options)
    checkpoint, model = tmp_path / "run/checkpoint_last.pt", tmp_path / "model"
    run("diverse_mha.cli", "export", checkpoint, model, "--format", "ctranslate2")
    text = "\n\n".join((tmp_path / SOURCE).read_text().splitlines()[:10])
    # The exported folder has a script that needs neither torch nor fairseq.
    done = run("translate", input=text, cwd=model, fresh=True).stdout.splitlines()
    command = ["diverse_mha.cli", "translate", checkpoint, tmp_path / "bin", "--cpu"]
    expected = run(*command, "--engine", "fairseq", input=text).stdout.splitlines()
    again = run(*command, input=text)
    assert again.stdout.splitlines() == done and "searching by CTranslate2" in again.stderr
    command = ["diverse_mha.evaluation.evaluate", checkpoint, tmp_path / "bin", "--cpu"]
    run(*command, "--engine", "ctranslate2", "--output", tmp_path / "found.json")
    assert (tmp_path / "found.hyp.detok").read_text().splitlines()[:10] == done[::2]
    assert len(done) == 19 and set(done[1::2]) == {""} and all(expected[::2])
    command = ["fairseq_cli.generate", tmp_path / "bin", "--path", checkpoint, "--cpu"]
    printed = run(*command, "--user-dir", PLUGIN).stdout
    translator = ctranslate2.Translator(str(model))
    for source, ours, score in searched(printed)[:10]:
        (scored,) = translator.score_batch([source], [ours])
        assert sum(scored.log_probs) == pytest.approx(score, abs=1e-3)
    # CTranslate2 forbids empty translations before the softmax of the first step, fairseq after it.
    # If two translations score nearly the same, the two programs may choose differently.
    assert sum(map(str.__eq__, done[::2], expected[::2])) > 5
    small = tmp_path / "small"
    convert = ["diverse_mha.cli", "export", checkpoint, small, "--format", "ctranslate2"]
    run(*convert, "--quantization", "int8")
    sizes = [(folder / "model.bin").stat().st_size for folder in (model, small)]
    assert sizes[1] < 0.65 * sizes[0], "int8 weights take one byte each instead of four"


def test_ctranslate2_returns_the_attention_of_the_chosen_alignment_head(prepared):
    checkpoint, data = prepared / "run/checkpoint_last.pt", prepared / "bin"
    models = {name: prepared / f"model {name}" for name in ("plain", "2.2", "1.average", "auto")}
    for name, folder in models.items():
        more = [] if name == "plain" else ["--alignment-head", name]
        command = ["diverse_mha.cli", "export", checkpoint, folder, "--format", "ctranslate2"]
        printed = run(*command, *more).stdout
    one = r"layer [12], (head [1-4]|average of the heads)$"  # CTranslate2 has no .next heads
    assert re.search(rf"for CTranslate2, aligning by {one}", printed.strip())
    lines = (prepared / SOURCE).read_text().splitlines()[:3]
    done = translate(prepared, "\n".join([*lines, ""]), "--alignments", "2.2")
    assert "aligned by layer 2, head 2" in done.stderr
    plain = translate(prepared, "\n".join([*lines, ""]), "--engine", "fairseq").stdout.splitlines()
    columns = [line.split("\t") for line in done.stdout.splitlines()]
    assert [text for text, *_ in columns] == plain
    for line, (_, words, target, links) in zip(lines, columns, strict=True):
        assert words.replace(" ", "") == line.replace(" ", "")
        pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert sorted(t for _, t in pairs) == list(range(len(target.split())))
        assert all(0 <= s < len(words.split()) for s, _ in pairs)
    line = "Qx|y la <dobanis> & \N{SNOWMAN}."
    done = translate(prepared, line, "--alignments", "2.2").stdout
    assert done.split("\t")[1].replace(" ", "") == line.replace(" ", ""), (
        "source words are those of the raw text"
    )
    assert "&amp;" not in done and "<unk>" not in done.split("\t")[1]
    loaded = open_models(checkpoint, data, cpu=True, heads=True)
    task = loaded.task
    words = task.source_dictionary.symbols[10:16]
    options = {"beam_size": 1, "max_decoding_length": 12, "max_input_length": 0}
    options |= {"return_scores": True, "return_attention": True}
    scores, found = [], []
    for folder in models.values():
        translator = ctranslate2.Translator(str(folder))
        (one,) = translator.translate_batch([words], **options)
        scores.append(one.scores[0])
        found.append((one.hypotheses[0], torch.tensor(one.attention[0])))
    assert {tuple(words) for words, _ in found} == {tuple(found[0][0])}
    assert scores == pytest.approx(scores[:1] * 4)
    (target, attention), (_, mean) = found[1:3]
    inputs = {
        "src_tokens": torch.tensor([[*map(task.source_dictionary.index, words), 2]]),
        "src_lengths": torch.tensor([len(words) + 1]),
        "prev_output_tokens": torch.tensor([[2, *map(task.target_dictionary.index, target)]]),
    }
    states = loaded.states({"net_input": inputs}, {"cross": ("weights",)})["cross"]
    expected = states[1].weights[0, 1, : len(attention), : attention.size(1)]
    torch.testing.assert_close(attention, expected, atol=1e-5, rtol=0)
    expected = states[0].weights[0].mean(dim=0)[: len(mean), : mean.size(1)]
    torch.testing.assert_close(mean, expected, atol=1e-5, rtol=0)
    command = ["diverse_mha.cli", "translate", checkpoint, data, "--cpu", "--alignments", "first"]
    assert "give auto, or LAYER.HEAD" in run(*command, input="x", check=False).stderr
    command[2] = f"{checkpoint}:{checkpoint}"
    assert "give one checkpoint" in run(*command, input="x", check=False).stderr


def test_the_exported_model_is_shown_by_bertviz(prepared):
    for library in ("bertviz", "IPython", "transformers"):
        pytest.importorskip(library)
    (command,) = (c.text for c in commands("docs/heads.md") if "bertviz_view" in c.text)
    python = warm.server()
    command = command.replace("runs/", f"{prepared}/").replace("python ", f"{python.python} ")
    model = [prepared / "run/checkpoint_last.pt", prepared / "hub", "--format", "transformers"]
    run("diverse_mha.cli", "export", *model, "--data", prepared / "bin")
    environment = os.environ | python.variables
    subprocess.run(["bash", "-c", command], check=True, cwd=PLUGIN.parent, env=environment)
    page = (prepared / "bertviz.html").read_text()
    assert {*re.findall(r'"name": "(\w+)"', page)} == {"Encoder", "Decoder", "Cross"}
    assert '"left_text": ["la", ' in page
