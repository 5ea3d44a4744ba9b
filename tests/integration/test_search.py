"""``evaluate`` finds the translations of fairseq-generate, with the same options of fairseq."""

import re

import pytest

from tests.integration.conftest import PLUGIN, run, train
from tests.shared import made_once

pytestmark = pytest.mark.integration

METHODS = {
    "routing": ["--aggregation", "em-routing", "--aggregation-encoder-layers", "1"],
    "coda": ["--logits", "mlp", "--attention-noise", "1.0"],
}
SAMPLING = ["--sampling", "--sampling-topk", "4", "--nbest", "3", "--beam", "3", "--seed", "7"]


@pytest.fixture(scope="module")
def models(trained, data, tmp_path_factory):
    """Name -> checkpoint of a model with a method, trained for one epoch; ``plain`` for two."""
    paths = {"plain": trained / "checkpoint_last.pt"}
    for name, options in METHODS.items():
        only_last = ["--max-epoch", 1, "--no-epoch-checkpoints", *options]
        folder = made_once(
            tmp_path_factory, f"search-{name}", lambda at, more=only_last: train(data, at, *more)
        )
        paths[name] = folder / "checkpoint_last.pt"
    return paths


@pytest.mark.parametrize(
    "names, options",
    [
        ("plain", ["--beam", "1"]),
        ("plain", ["--beam", "4", "--lenpen", "0.3"]),
        ("plain", SAMPLING),
        ("plain", ["--diverse-beam-groups", "5", "--batch-size", "3"]),
        ("plain", ["--no-repeat-ngram-size", "2", "--min-len", "4", "--unkpen", "2"]),
        ("routing", ["--beam", "5", "--max-tokens", "40"]),
        ("coda", ["--beam", "5", "--lenpen", "1.5"]),
        ("plain:coda", ["--beam", "4"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_evaluate_translates_as_fairseq_generate(models, data, tmp_path, names, options):
    path = ":".join(str(models[name]) for name in names.split(":"))
    options = ["--cpu", "--max-len-b", 12, *options]
    done = run("fairseq_cli.generate", data, "--path", path, "--user-dir", PLUGIN, *options)
    found = dict(re.findall(r"^H-(\d+)\t[^\t]*\t(.*)$", done.stdout, re.M)[::-1])  # the best last
    references = [f"--{kind}-reference={data.parent / 'test.tgt'}" for kind in ("raw", "tok")]
    output = ["--output", tmp_path / "scores.json"]
    run("diverse_mha.evaluation.evaluate", path, data, *options, *references, *output)
    lines = (tmp_path / "scores.hyp.tok").read_text().splitlines()
    assert lines == [found[str(number)] for number in range(10)]
    different = 1 if names == "routing" else 2  # one epoch teaches it one sentence
    assert len({*lines}) >= different, "the translations depend on the source"
