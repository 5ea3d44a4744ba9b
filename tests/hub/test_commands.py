"""``analyze``, ``prune`` and ``load`` with folders of transformers."""

import csv
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers
from sacrebleu import corpus_bleu

import diverse_mha
from diverse_mha.analysis.sites import MEASURES
from diverse_mha.cli import run
from diverse_mha.common.errors import UserError
from diverse_mha.hub import search
from diverse_mha.hub.adapter import HubAdapter, open_folders
from diverse_mha.hub.texts import Text
from tests.hub import folders


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Function that returns a folder with a model, written once."""
    root, known = tmp_path_factory.mktemp("models"), {}

    def folder(name, seed=1):
        if (name, seed) not in known:
            known[name, seed] = folders.save(name, root / f"{name}-{seed}", seed)
        return known[name, seed]

    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return folders.texts(tmp_path_factory.mktemp("text"), 20)


def command(name, *words):
    """Run a command, given text of which --target is the second file."""
    assert run([name, *map(str, words), "--cpu"]) == 0


def given(files):
    return "--text", files[0], "--target", files[1]


@pytest.mark.integration
def test_analyze_needs_no_fairseq_and_measures_all_that_it_measures_for_fairseq(
    models, files, tmp_path
):
    words = ["analyze", models("marian"), models("marian", 2), *given(files), "--output",
             tmp_path / "out.json", "--measures", ",".join(MEASURES), "--cpu"]  # fmt: skip
    script = (
        "import sys; from diverse_mha.cli import run; code = run(sys.argv[1:]); "
        "assert not {'fairseq', 'omegaconf'} & set(sys.modules); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, words)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["data"] == f"{files[0]} {files[1]}" and content["subset"] == str(files[0])
    for model in content["models"]:
        assert model["architecture"] == "MarianMTModel" and model["sentences"] == 20
        assert list(model["components"]) == ["encoder", "cross", "decoder"]
        assert set(model["summary"]) == {*MEASURES} - {"disagreement"}
        assert model["importance"]["unit"] == "token" and len(model["sha256"]) == 64
    assert [model["name"] for model in content["models"]] == ["marian-1", "marian-2"]


@pytest.mark.integration
def test_the_report_shows_sentences_and_against_compares_positions(models, files, tmp_path, capsys):
    lines = tmp_path / "lines"
    lines.write_text("a b@c\td e\nc d\tf\n")
    output, heads = tmp_path / "out", tmp_path / "heads.npz"
    command("analyze", models("bart"), *given(files), "--against", models("bart", 2), "--measures",
            "cka", "--sentences", lines, "--save-heads", heads, "--output", output)  # fmt: skip
    (model,) = json.loads((output / "scores.json").read_text())["models"]
    assert set(model["against"]) == {"encoder", "cross", "decoder"}
    page = (output / "report.html").read_text()
    assert all(f'"{token}"' in page for token in ("b", "@c", "\\u003c/s\\u003e"))
    arrays = np.load(heads)
    assert arrays["source_tokens"].tolist()[0] == ["a", "b", "@c", "</s>"]
    assert arrays["target_tokens"].tolist()[1] == ["f", "</s>", ""]
    assert arrays["cross.weights.2"].shape == (2, 4, 3, 4)
    other = folders.save("bart", tmp_path / "other")
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    tokenizer["post_processor"]["single"] *= 2
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(UserError, match="--against .*: does not read the same data"):
        command("analyze", models("bart"), *given(files), "--against", other)


@pytest.mark.integration
def test_language_models_and_classifiers_are_analyzed(models, files, tmp_path, capsys):
    output = tmp_path / "out.json"
    command("analyze", models("llama"), "--text", files[0], "--block", 16, "--measures",
            "importance", "--output", output)  # fmt: skip
    (model,) = json.loads(output.read_text())["models"]
    tokens = len(folders.tokenizer()(files[0].read_text())["input_ids"]) - 1
    assert model["sentences"] == -(-tokens // 16)
    assert model["importance"]["tokens"] == tokens - model["sentences"]
    labels = tmp_path / "labels"
    labels.write_text("".join(f"LABEL_{n % 3}\n" for n in range(20)))
    command("analyze", models("bert classifier"), "--text", files[0], "--target", labels,
            "--measures", "importance", "--output", output)  # fmt: skip
    (model,) = json.loads(output.read_text())["models"]
    assert model["importance"]["unit"] == "example" and model["importance"]["tokens"] == 20


@pytest.mark.integration
def test_pruned_heads_are_zero_in_a_folder_that_transformers_loads(models, files, tmp_path, capsys):
    source, pruned = models("marian"), tmp_path / "pruned"
    command("prune", source, *given(files), "--share", 0.3, "--output", pruned)
    printed = capsys.readouterr().out
    heads = re.findall(r"(\w+) (\d)\.(\d)", printed.splitlines()[1])
    assert len(set(heads)) == 7 and json.loads((pruned / "pruned_heads.json").read_text())[
        "pruned_heads"
    ] == [f"{c} {layer}.{head}" for c, layer, head in heads]
    whole, small = (
        transformers.AutoModelForSeq2SeqLM.from_pretrained(path) for path in (source, pruned)
    )
    names = {"encoder": "encoder.layers.{}.self_attn", "decoder": "decoder.layers.{}.self_attn",
             "cross": "decoder.layers.{}.encoder_attn"}  # fmt: skip
    for component, layer, head in heads:
        name = f"model.{names[component]}.out_proj".format(int(layer) - 1)
        columns = slice(4 * int(head) - 4, 4 * int(head))
        assert not small.get_submodule(name).weight[:, columns].any()
        with torch.no_grad():
            whole.get_submodule(name).weight[:, columns] = 0
    for (name, one), other in zip(
        whole.state_dict().items(), small.state_dict().values(), strict=True
    ):
        assert torch.equal(one, other), name
    before, after = (
        float(re.search(rf"{x}(\d\.\d+)", printed)[1]) for x in (r"\.src: ", "before, ")
    )
    (adapter,) = open_folders([pruned], {"x": Text(*files)}, cpu=True)
    found = [adapter.losses(batch) for batch in adapter.batches("x", 4000)]
    loss = sum(float(x.losses.sum()) for x in found) / sum(float(x.counts.sum()) for x in found)
    assert after == pytest.approx(loss / np.log(2), abs=6e-4) and before != after
    # The command replaces its own folder, and no other.
    command("prune", source, *given(files), "--heads", 1, "--output", pruned)
    with pytest.raises(UserError, match="--output .*: is read by this command"):
        command("prune", source, *given(files), "--heads", 1, "--output", source)
    for more, message in (
        (("--heads", 1, "--remove"), "--remove: needs .* MarianMTModel is none"),
        (("--curve", "0,1"), "--curve: give text to score too, --score-text FILE"),
        (("--heads", 1, "--subset", "test"), "--subset test has no effect with --text"),
    ):
        with pytest.raises(UserError, match=message):
            command("prune", source, *given(files), *more, "--output", tmp_path / "x")


@pytest.mark.integration
def test_a_curve_scores_other_text(models, files, tmp_path, capsys):
    score = folders.texts(tmp_path, 5)
    command("prune", f"a={models('gpt2')}", models("llama"), "--text", files[0], "--by",
            "gradient", "--curve", "0,0.5", "--score-text", score[0],
            "--output", tmp_path / "curve")  # fmt: skip
    with open(tmp_path / "curve/curve.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["model"], row["share"]) for row in rows] == [
        ("a", "0.0"), ("a", "0.5"), ("llama-1", "0.0"), ("llama-1", "0.5")
    ]  # fmt: skip
    (adapter,) = open_folders([models("gpt2")], {"x": Text(score[0])}, cpu=True)
    (batch,) = adapter.batches("x", 4000)
    found = adapter.losses(batch)
    loss = float(found.losses.sum() / found.counts.sum()) / np.log(2)
    assert float(rows[0]["nll"]) == pytest.approx(loss, rel=1e-6)


@pytest.mark.integration
def test_bleu_of_a_curve_is_that_of_translations_by_transformers_alone(models, files, tmp_path):
    folder = tmp_path / "marian"
    model = folders.build("marian")
    model.generation_config.update(max_length=12, num_beams=2, length_penalty=0.6)
    model.save_pretrained(folder)
    folders.tokenizer().save_pretrained(folder)
    tokenizer, lines = folders.tokenizer(), files[0].read_text().splitlines()

    def translate(path):
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(path)
        rows = [model.generate(**tokenizer(line, return_tensors="pt"))[0] for line in lines]
        return tokenizer.batch_decode(rows, skip_special_tokens=True)

    references = tmp_path / "references"
    references.write_text("".join(f"{line}\n" for line in translate(folder)))
    words = ("--by", "random", "--score", "bleu", "--score-text", files[0], "--score-target")
    command("prune", folder, *given(files), "--curve", "0,0.1", *words, references,
            "--output", tmp_path / "curve")  # fmt: skip
    with open(tmp_path / "curve/curve.csv", newline="") as file:
        found = [float(row["bleu"]) for row in csv.DictReader(file)]
    command("prune", folder, *given(files), "--share", 0.1, "--by", "random", "--output",
            tmp_path / "pruned")  # fmt: skip
    expected = corpus_bleu(translate(tmp_path / "pruned"), [references.read_text().splitlines()])
    assert found[0] == pytest.approx(100) and found[1] == pytest.approx(expected.score)
    assert 1 < found[1] < 99
    with pytest.raises(UserError, match="GPT2LMHeadModel does not translate; give --score nll"):
        command("prune", models("gpt2"), "--text", files[0], "--curve", "0.5", *words[2:6],
                "--output", tmp_path / "x")  # fmt: skip


def test_load_takes_folders_and_models(models):
    model = diverse_mha.load(models("marian"), cpu=True)
    run = model.run(["a b@c", "d"], target=["e", "f g h"])
    assert run.source_tokens == [["a", "b", "@c", "</s>"], ["d", "</s>"]]
    assert run.target_tokens == [["e", "</s>"], ["f", "g", "h", "</s>"]]
    assert [tuple(x.shape) for x in run.heads["cross"].weights] == [(2, 4, 4, 4)] * 2
    assert run.heads["cross"].key_padding_mask.tolist()[1] == [False, False, True, True]
    own = model.run(["a b"], states=("weights",), beam=2)
    forced = own.target_tokens[0]
    generated = model.adapter.model.generate(
        torch.tensor([[4, 5, 1]]), num_beams=2, do_sample=False, max_new_tokens=56
    )[0, 1:]
    assert forced == model.adapter.tokenizer.convert_ids_to_tokens(generated)
    network, tokenizer = folders.build("gpt2"), folders.tokenizer()
    run = diverse_mha.load(network, tokenizer=tokenizer).run(["a b c"])
    assert run.source_tokens == [["a", "b", "c", "</s>"]]
    assert run.target_tokens == [["b", "c", "</s>", "</s>"]]
    expected = network(torch.tensor([[4, 5, 6, 1]]), output_hidden_states=True)
    assert expected.logits.shape[1] == run.heads["decoder"].outputs[0].shape[2]
    with pytest.raises(UserError, match="give its tokenizer"):
        diverse_mha.load(network)


def test_wrong_models_and_texts_are_refused_in_one_line(models, files, tmp_path):
    checkpoint, short = tmp_path / "x.pt", tmp_path / "short"
    checkpoint.write_bytes(b"")
    short.write_text("a\n")
    marian, gpt2, text = models("marian"), models("gpt2"), ("--text", files[0])
    for words, message in (
        ((marian, *text), "MarianMTModel needs translations; give --target FILE"),
        ((gpt2, *given(files)), "GPT2LMHeadModel takes none; leave it out"),
        ((marian, *text, "--target", short), "has 1 line, but .* has 20 lines"),
        ((marian, "--text", tmp_path / "no"), "no: no such file; give text"),
        ((marian, *given(files), "--subset", "test"), "--subset test has no effect with --text"),
        ((checkpoint, *text), "is not a folder of transformers .*; for a checkpoint, give DATA"),
        ((marian, tmp_path), "is a folder of transformers; give its text, --text FILE"),
        ((checkpoint,), "arguments are required: DATA"),
        ((checkpoint, tmp_path, "--block", 9), "--block 9: needs --text"),
        ((gpt2, "--text", short, "--components", "encoder"), "it has decoder"),
    ):
        with pytest.raises(UserError, match=message) as error:
            command("analyze", *words)
        assert "\n" not in str(error.value)


def test_attention_that_cannot_be_observed_is_refused_in_one_line():
    config = transformers.DebertaV2Config(
        vocab_size=24, hidden_size=16, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=16, pad_token_id=0,
    )  # fmt: skip
    model = transformers.DebertaV2ForMaskedLM(config).eval()
    with pytest.raises(UserError, match="has attention code of its own; supported are Marian, F"):
        HubAdapter(model, folders.tokenizer())
    config = transformers.AlbertConfig(
        vocab_size=24, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=16, embedding_size=16, pad_token_id=0,
    )  # fmt: skip
    model = transformers.AlbertForMaskedLM(config).eval()
    with pytest.raises(UserError, match="runs one attention module in several layers"):
        HubAdapter(model, folders.tokenizer())


def test_t5_can_be_observed_since_5_15():
    model = folders.build("t5")
    if folders.HAS_T5:
        assert len(HubAdapter(model, folders.tokenizer()).sites) == 6
    else:
        with pytest.raises(UserError, match="T5ForConditionalGeneration needs transformers 5.15"):
            HubAdapter(model, folders.tokenizer())


def test_multilingual_models_translate_into_the_tokenizers_language(tmp_path):
    folder = folders.save_m2m100(tmp_path / "m2m", src_lang="de", tgt_lang="en")
    model = diverse_mha.load(folder, cpu=True)
    run = model.run(["ein Haus am See ."], states=("weights",), beam=2)
    assert run.source_tokens[0][0] == "__de__" and run.target_tokens[0][0] == "__en__"
    forced = model.run(["ein Haus ."], ["a house ."], states=("weights",))
    assert forced.target_tokens[0][0] == "__en__"
    tokenizer, code = model.adapter.tokenizer, model.adapter.reader.language_code()
    (ids,) = model.adapter.reader.ids(["a house at the lake ."], text_target=True)
    assert search.bleu(tokenizer, code, [ids], ["a house at the lake ."]) == pytest.approx(100)
    model = diverse_mha.load(folders.save_m2m100(tmp_path / "none", src_lang="de"), cpu=True)
    with pytest.raises(UserError, match="set its src_lang and tgt_lang"):
        model.run(["ein Haus ."], ["a house ."])


def test_no_code_of_a_folder_runs(models, tmp_path):
    folder = tmp_path / "remote"
    folders.save("bert", folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "mine.py").write_text("raise SystemExit('code of the folder runs')")
    with pytest.raises(UserError, match="transformers cannot load this folder"):
        diverse_mha.load(folder)
