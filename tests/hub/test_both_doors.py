"""The same model, as a checkpoint of fairseq and as a folder of transformers."""

import pytest
from fairseq.data import Dictionary, indexed_dataset
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from diverse_mha.analysis.analyze import analyze
from diverse_mha.analysis.results import to_json
from diverse_mha.analysis.sites import MEASURES, Selection
from diverse_mha.evaluation.opener import Source, open_heads
from diverse_mha.evaluation.states import grouped, open_state
from diverse_mha.export.transformers import convert
from tests.analysis.conftest import data, save  # noqa: F401 (fixtures)


def numbers(value):
    """Yield the numbers of a result with the keys that lead to them."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from (((key, *path), x) for path, x in numbers(item))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from (((place, *path), x) for path, x in numbers(item))
    else:
        yield (), value


@pytest.mark.integration
def test_an_exported_model_has_the_same_measures_through_both_doors(save, data, tmp_path):  # noqa: F811
    checkpoint, folder = save("both", "transformer_disagree"), tmp_path / "fsmt"
    convert(str(checkpoint), grouped(str(checkpoint), open_state(checkpoint)), str(data), folder)
    words = Dictionary.load(str(data / "dict.src.txt"))
    made = Tokenizer(models.WordLevel({w: n for n, w in enumerate(words.symbols)}, "<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", words.eos())]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    files = []
    for side in ("src", "tgt"):
        texts = indexed_dataset.make_dataset(str(data / f"valid.src-tgt.{side}"), impl="mmap")
        files.append(tmp_path / side)
        lines = [words.string(texts[n]) for n in range(len(texts))]
        files[-1].write_text("".join(f"{line}\n" for line in lines))
    source = Source("", {"valid": tuple(map(str, files))})
    selection = Selection(measures=tuple(MEASURES), sentences=2)
    results = []
    for path, given in ((checkpoint, data), (folder, source)):
        (model,) = open_heads([path], given, cpu=True)
        analysis = analyze(model, selection, name="x")
        found = to_json(analysis.result)
        results.append({key: found[key] for key in ("components", "summary", "disagreement",
                                                    "importance", "sentences")})  # fmt: skip
        results[-1]["seen"] = [
            {component: [own["queries"], own["keys"]] for component, own in s["components"].items()}
            for s in analysis.sentences
        ]
    one, other = ([*numbers(result)] for result in results)
    assert len(one) > 500
    for (path, x), (other_path, y) in zip(one, other, strict=True):
        assert path == other_path
        if isinstance(x, float) and "coefficients" not in path and "p" not in path:
            assert y == pytest.approx(x, abs=2e-4), path
        elif not isinstance(x, float):
            assert x == y or "kept" in path, path
