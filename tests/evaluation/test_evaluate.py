"""Evaluation: fairseq's output, post-processing, scores and errors."""

import argparse
import json
from contextlib import nullcontext

import pytest
import torch

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.prepared import preparation
from diverse_mha.evaluation import evaluate, fairseq_command
from diverse_mha.evaluation.engine import Found
from diverse_mha.evaluation.scores import Decoding
from tests.corpora.test_prepared import NOTE


class Engine:
    """An engine that finds these translations."""

    def __init__(self, *lines: str):
        self.lines = lines

    def translate(self, text, progress):
        return (Found(line.split(), 0.0) for line in self.lines)


def binarised(folder, words=("low@@ 3", "er 3"), names=("test.de-en.de.idx", "test.de-en.en.idx")):
    """Make a folder that looks like binarised data."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    (folder / "dict.en.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a 3", "lo@@ 2"], "subword_nmt"),
        (["a 3", "\u2581lo 2"], "sentencepiece"),
        (["@@ 3", "lo 2"], "subword_nmt"),
        (["low 3", "@-@ 2"], None),
        (["\u2581 9", "lo@@ 2", "wer@@ 2"], "subword_nmt"),
    ],
)
def test_subword_kind_is_read_from_the_dictionary(tmp_path, words, expected):
    data = binarised(tmp_path / "bin", words)
    assert evaluate.subwords_of(data / "dict.en.txt") == expected


@pytest.mark.parametrize(
    ("trained", "given", "expected"),
    [
        (("en", "de"), None, ("en", "de")),
        (("en", "de"), "en", ("de", "en")),
        (("de", "en"), None, ("de", "en")),
        (("fr", "en"), None, ("de", "en")),
        (("fr", "en"), "de", ("en", "de")),
        ((None, None), None, ("de", "en")),
    ],
)
def test_the_translation_direction_is_that_of_the_training(tmp_path, trained, given, expected):
    data = binarised(tmp_path / "bin")
    assert evaluate.languages(data, "test", given, trained) == (("de", "en"), expected)
    with pytest.raises(UserError, match=f"holds no dict.*; give {data}$"):
        evaluate.languages(tmp_path, "test", given, trained)


def test_several_language_pairs_are_refused(tmp_path):
    names = ["test.de-en.de.idx", "test.de-en.en.idx", "test.de-fr.de.idx", "test.de-fr.fr.idx"]
    data = binarised(tmp_path / "bin", names=names)
    with pytest.raises(UserError, match="bin: has test for de-en, .*; give a folder with one pair"):
        evaluate.languages(data, "test", None, ("de", "fr"))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--gen-subset=valid", "--gen-subset: is set by this command; use --subset"),
        ("--gen-sub=valid", "--gen-sub: is set by this command; use --subset"),
        ("--source-lang=en", "--source-lang: is set by this command; use --target-lang LANG"),
        ("-s", "-s: is set by this command; use --target-lang LANG"),
    ],
)
def test_options_reserved_by_the_command_are_refused(option, message):
    with pytest.raises(UserError, match=message):
        evaluate.main(["model.pt", "bin", option])


@pytest.mark.parametrize("lowercase", [True, False])
def test_lowercasing_is_read_from_corpus_json(tmp_path, lowercase):
    assert preparation(tmp_path).languages == {} and preparation(tmp_path).post_process is None
    note = NOTE | {"lowercase": lowercase, "source": "deu", "target": "eng"}
    (tmp_path / "corpus.json").write_text(json.dumps(note))
    made = preparation(tmp_path)
    assert made.languages == {"deu": "de", "eng": "en"} and made.tokeniser["lowercase"] is lowercase


@pytest.mark.parametrize("kind, undone", [("bpe", "subword_nmt"), ("sentencepiece",) * 2])
@pytest.mark.parametrize("tokeniser", ["moses", "none"])
def test_corpus_json_determines_text_settings(
    tmp_path, monkeypatch, capsys, kind, undone, tokeniser
):
    """The settings in ``corpus.json`` override what the dictionary and plain text suggest."""
    data = binarised(tmp_path / "bin", ["\u2581 9", "lo@@ 2"])
    note = NOTE | {"subwords": kind, "tokeniser": tokeniser}
    (data / "corpus.json").write_text(json.dumps(note))
    for folder in ("raw", "tok"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test.en").write_text("a b c d , e\n")
    asked = []

    def search(decoding):
        asked.append(decoding.post_process)
        mark = "\u2581" if kind == "sentencepiece" else ""
        return Engine(" ".join(mark + word for word in "a b c d , e".split()))

    torch.save({"model": {}}, tmp_path / "model.pt")
    for name in ("check_translates", "check_split"):
        monkeypatch.setattr(evaluate, name, lambda *_: None)
    monkeypatch.setattr(evaluate, "load_indexed_dataset", lambda path: ["a"])
    monkeypatch.setattr(evaluate, "open_fairseq", search)
    command = [str(tmp_path / "model.pt"), str(data), "--output", str(tmp_path / "out.json")]
    evaluate.main(command)
    assert asked == [undone]
    plain = {"moses": "a b c d, e\n", "none": "a b c d , e\n"}[tokeniser]
    assert (tmp_path / "out.hyp.detok").read_text() == plain
    scores, raw = json.loads((tmp_path / "out.json").read_text()), str(tmp_path / "raw/test.en")
    assert ("tokenised_bleu" in scores) is (tokeniser == "moses")
    assert ("tokenised BLEU" in capsys.readouterr().out) is (tokeniser == "moses")
    if tokeniser == "none":
        (tmp_path / "tok/test.en").unlink()  # it is not scored
        evaluate.main(command)
        assert json.loads((tmp_path / "out.json").read_text())["sacrebleu"] == scores["sacrebleu"]
        options = [["--moses-language", "de"], ["--compound-split"], ["--tok-reference", raw]]
        for option in options:
            with pytest.raises(
                UserError, match=f"{option[0]}: has no effect, .* not tokenised; le"
            ):
                evaluate.main([*command, *option])
        cfg = {"task": {"_name": "translation"}, "scoring": {"score": "compound_split_bleu"}}
        torch.save({"model": {}, "cfg": cfg}, tmp_path / "checkpoint_last.pt")
        command[0] = str(tmp_path)  # a run, whose recipe has the option
        with pytest.raises(UserError, match="--compound-split: .*; give --no-compound-split"):
            evaluate.main(command)
        assert evaluate.main([*command, "--no-compound-split"]) == 0


@pytest.mark.parametrize("engine", ["ctranslate2", "auto"])
def test_an_existing_output_is_refused_before_the_model_is_converted(tmp_path, monkeypatch, engine):
    data = binarised(tmp_path / "bin", ["lo@@ 2"])
    for folder in ("raw", "tok"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test.en").write_text("a\n")
    torch.save({"model": {}}, tmp_path / "model.pt")
    (tmp_path / "out.json").write_text("{}")
    monkeypatch.setattr(evaluate, "check_translates", lambda *_: None)
    monkeypatch.setattr(evaluate, "open_engine", lambda *_, **__: pytest.fail("converted"))
    command = [str(tmp_path / "model.pt"), str(data), "--output", str(tmp_path / "out.json")]
    with pytest.raises(UserError, match=r"out\.json.*--force"):
        evaluate.main([*command, "--engine", engine])


@pytest.mark.parametrize("name", ["out.hyp.tok", "out.hyp.detok"])
def test_foreign_files_beside_the_output_are_not_replaced(tmp_path, monkeypatch, name):
    data = binarised(tmp_path / "bin", ["lo@@ 2"])
    for folder in ("raw", "tok"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test.en").write_text("a\n")
    torch.save({"model": {}}, tmp_path / "model.pt")
    (tmp_path / name).write_text("b\n")
    for done in ("check_translates", "check_split"):
        monkeypatch.setattr(evaluate, done, lambda *_: None)
    monkeypatch.setattr(evaluate, "load_indexed_dataset", lambda path: ["a"])
    monkeypatch.setattr(evaluate, "open_fairseq", lambda *_: Engine("a"))
    command = [str(tmp_path / "model.pt"), str(data), "--output", str(tmp_path / "out.json")]
    with pytest.raises(UserError, match=f"--output .*{name}: exists without out.json.*or --force"):
        evaluate.main(command)
    with pytest.raises(UserError, match=f"{name}: is read by this command; give another name"):
        evaluate.main([*command, "--raw-reference", str(tmp_path / name), "--force"])
    assert (tmp_path / name).read_text() == "b\n"
    assert evaluate.main([*command, "--force"]) == 0
    assert (tmp_path / name).read_text() == "a\n"
    assert evaluate.main(command) == 0, "own files are replaced"


@pytest.mark.parametrize(
    "changed, message",
    [
        ({}, None),
        ({"beam": 10}, "with beam 5, not 10; give --output FILE.json"),
        ({"generate_options": ["--nbest", "2"]}, r"generate_options \[\], not \['--nbest', '2'\]"),
        ({"compound_split": True}, "with compound_split False, not True"),
    ],
)
def test_result_with_other_settings_is_not_replaced(tmp_path, changed, message):
    file = tmp_path / "best.test.json"
    settings = {"data": "bin", "beam": 5, "generate_options": [], "compound_split": False}
    file.write_text(json.dumps(settings | {"sacrebleu": 20.0}))
    asked = settings | changed | {"target_lang": "en"}  # older results lack this value
    args = argparse.Namespace(force=False, output=None)
    given = args, [f"{tmp_path}/best.pt"], "test", asked, "sacrebleu"
    with pytest.raises(UserError, match=message) if message else nullcontext():
        assert fairseq_command.evaluation_output(*given) == file
    args.force = True
    assert fairseq_command.evaluation_output(*given) == file
    args.output, args.force = file, False
    assert fairseq_command.evaluation_output(*given) == file


def test_a_result_of_the_same_data_folder_is_replaced_however_the_folder_is_written(tmp_path):
    file = tmp_path / "best.test.json"
    settings = {"data": "bin", "generate_options": ["--nbest", "2"]}
    file.write_text(json.dumps(settings | {"data": "bin/", "sacrebleu": 20.0}))
    args = argparse.Namespace(force=False, output=None)
    given = args, [f"{tmp_path}/best.pt"], "test", settings, "sacrebleu"
    assert fairseq_command.evaluation_output(*given) == file


def test_result_of_another_ensemble_is_not_replaced(tmp_path, monkeypatch):
    """The name of an ensemble's result has the checkpoints' names, but not all of their folders."""
    monkeypatch.chdir(tmp_path)
    args = argparse.Namespace(force=False, output=None)
    rest = "test", {"data": "bin"}, "sacrebleu"
    first = ["a/averaged.pt", "b/checkpoint_best.pt"]
    (tmp_path / "a").mkdir()
    file = fairseq_command.evaluation_output(args, first, *rest)
    content = {"data": "bin", "checkpoint": ":".join(first), "sacrebleu": 20.0}
    file.write_text(json.dumps(content))
    for same in (first, ["./a/averaged.pt", str(tmp_path / "b/checkpoint_best.pt")]):
        assert fairseq_command.evaluation_output(args, same, *rest).samefile(file)
    other = [first[0], "c/checkpoint_best.pt"]
    with pytest.raises(
        UserError, match=f"with checkpoint {':'.join(first)}, not {':'.join(other)}"
    ):
        fairseq_command.evaluation_output(args, other, *rest)


def test_a_plugin_is_not_recorded_as_a_search_option():
    extra = ("--user-dir", "plugin", "--max-len-b=9", "--user-dir=plugin")
    inputs = fairseq_command.Inputs("best.pt", "bin", "test", True, extra)
    decoding = Decoding(inputs, "de", "en", 5, 1.0, None, True, False, None, False, None, None)
    assert decoding.to_json()["generate_options"] == ["--max-len-b=9"]


@pytest.mark.parametrize("given", ["bin/", "./bin", "bin"])
def test_a_data_folder_is_recorded_in_one_form(tmp_path, given):
    torch.save({"cfg": {"model": {}}, "model": {"x": torch.ones(1)}}, tmp_path / "model.pt")
    words = [str(tmp_path / "model.pt"), given]
    args, inputs = fairseq_command.parse_with_fairseqs(evaluate.build_parser(), words, {})
    assert args.data == inputs.data == "bin"


def inputs_of(path, *words):
    parser = evaluate.build_parser()
    return fairseq_command.parse_with_fairseqs(parser, [str(path), "bin", *words], {})[1]


def test_attention_samples_become_a_model_override(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"cfg": {"model": {"attention_noise": 1.0}}, "model": {"x": torch.ones(1)}}, path)
    override = "--model-overrides={'model': {'attention_samples': 4}}"
    assert inputs_of(path, "--attention-samples", "4").extra == (override,)
    assert inputs_of(path).extra == ()
    with pytest.raises(UserError, match="--attention-samples 4: cannot be combined with"):
        inputs_of(path, "--attention-samples", "4", "--model-overrides", "{}")
    torch.save({"cfg": {"model": {}}, "model": {"x": torch.ones(1)}}, path)
    with pytest.raises(UserError, match="model.pt was trained without --attention-noise"):
        inputs_of(path, "--attention-samples", "4")
