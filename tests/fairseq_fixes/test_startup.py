"""What fairseq's import leaves out is there when it is used."""

import importlib
import json
import subprocess
import sys

import pytest
import torch.onnx.operators
from fairseq.modules import sinusoidal_positional_embedding as positional
from fairseq.modules.sinusoidal_positional_embedding import SinusoidalPositionalEmbedding

from diverse_mha.fairseq_fixes import startup

LIBRARIES = ("sklearn", "scipy", "torch.onnx", "tensorboardX")

# Prints what a user can name after an import, and the help of fairseq-train.
SURVEY = """
import contextlib, io, json, sys
with contextlib.redirect_stderr(io.StringIO()):
    exec(sys.argv.pop(1))
from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf
found = {"imported": [n for n in json.loads(sys.argv.pop(1)) if n in sys.modules]}
known = {"arch": ARCH_MODEL_REGISTRY, "model": MODEL_DATACLASS_REGISTRY}
known |= {"task": TASK_REGISTRY, "task options": TASK_DATACLASS_REGISTRY}
for name, entry in REGISTRIES.items():
    known |= {name: entry["registry"], name + " options": entry["dataclass_registry"]}
kinds = (type, type(lambda: 0))
found["names"] = {
    kind: {n: f"{c.__module__}.{c.__qualname__}" if isinstance(c, kinds) else repr(c)
           for n, c in sorted(entries.items())}
    for kind, entries in known.items()
}
def nodes(folder):
    for name, entry in sorted(folder.items()):
        yield name, dict(nodes(entry)) if isinstance(entry, dict) else [
            entry.name, entry.group, entry.package, entry.provider,
            str(OmegaConf.get_type(entry.node)), OmegaConf.to_yaml(entry.node)]
found["store"] = dict(nodes(ConfigStore.instance().repo))
with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
    options.get_training_parser().parse_args(["--help"])
found["help"] = text.getvalue()
print(json.dumps(found))
"""


def python(code: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.integration
def test_everything_that_fairseq_registers_is_there_with_the_same_options():
    fast, whole = (
        json.loads(python(SURVEY, imports, json.dumps(LIBRARIES)))
        for imports in ("import diverse_mha, fairseq", "import fairseq, diverse_mha")
    )
    assert fast.pop("imported") == [] and whole.pop("imported") == list(LIBRARIES)
    assert len(fast["names"]["arch"]) > 200 and "wav2vec2" in fast["names"]["arch"]
    assert "sentence_prediction" in fast["help"] and len(fast["store"]["model"]) > 100
    for part in whole:
        assert fast[part] == whole[part], part


@pytest.mark.integration
def test_what_was_left_out_is_imported_when_it_is_used():
    """Scores of fairseq, its TensorBoard writer, and a plugin that imports the libraries."""
    python("""if True:
        import sys, tempfile, diverse_mha, fairseq, numpy
        from fairseq.criterions import sentence_prediction as scores
        from fairseq.logging import progress_bar
        from fairseq.tasks import audio_classification as audio, text_to_speech
        assert "sklearn" not in sys.modules and "tensorboardX" not in sys.modules
        numbers = [0, 1, 1, 2], [1, 3, 3, 5]
        labels = numpy.array([1, 0])
        assert scores.acc_and_f1(labels, labels) == {"acc": 1, "f1": 1, "acc_and_f1": 1}
        assert scores.pearson_and_spearman(*numbers)["pearson"] > 0.999
        assert audio.sklearn_metrics.roc_curve([0, 1], [0.1, 0.9])[1][-1] == 1
        with tempfile.TemporaryDirectory() as folder:
            progress_bar.SummaryWriter(folder).close()
        import scipy.stats, sklearn.metrics, tensorboardX, torch.onnx.operators
        assert scipy.stats.spearmanr(*numbers)[0] > 0.999 and sklearn.__version__
        assert isinstance(tensorboardX.SummaryWriter, type)
        assert torch.onnx.operators.shape_as_tensor(torch.ones(3)).item() == 3
    """)


def test_a_deferred_library_is_imported_on_use_and_only_for_the_block(tmp_path, monkeypatch):
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow/__init__.py").write_text("ready = [1]")
    (tmp_path / "slow/part.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "user.py").write_text("import slow.part, slow\nfrom slow.part import double\n")
    (tmp_path / "other.py").write_text("from slow import part, ready\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    with startup.deferred(("slow", "slow.part")):
        user, other = map(importlib.import_module, ("user", "other"))
    assert not {"slow", "slow.part"} & {*sys.modules}
    assert user.double(4) == 8 and other.part.double(3) == 6
    assert other.ready.count(1) == user.slow.part.double(1) - 1 == 1
    assert importlib.import_module("slow").ready == [1]
    with startup.deferred(("slow",)):  # imported already
        assert importlib.import_module("slow").ready == [1]


def test_a_missing_library_is_reported_at_once():
    with startup.deferred(("a_missing_library", "a_missing_library.part")):
        for name in ("a_missing_library", "a_missing_library.part"):
            with pytest.raises(ModuleNotFoundError, match="'a_missing_library'"):
                importlib.import_module(name)


@pytest.mark.parametrize("transform", [lambda m: m, torch.jit.script], ids=["plain", "scripted"])
def test_sinusoidal_positions_do_without_torch_onnx(monkeypatch, transform):
    tokens = torch.tensor([[4, 5, 6], [1, 4, 5]])
    monkeypatch.setattr(positional, "torch", torch)
    expected = transform(SinusoidalPositionalEmbedding(8, 1))(tokens)
    startup._replace_onnx(positional.__name__)
    assert positional.torch is not torch and positional.torch.onnx is not torch.onnx
    assert torch.equal(transform(SinusoidalPositionalEmbedding(8, 1))(tokens), expected)
