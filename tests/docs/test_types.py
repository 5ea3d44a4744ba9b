"""A type checker knows what a program that uses this package gets, and what it does wrong."""

import json
import re
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT

pytestmark = pytest.mark.integration

PROGRAM = """
import diverse_mha
from torch import Tensor
from transformers import PreTrainedModel, Seq2SeqTrainer

from balance import Balance, BalanceOptions
from scaled import ScaledOptions, build
from diverse_mha.analysis import attention_entropy, cka, svcca
from diverse_mha.attention import AGGREGATION, LOGITS, HeadStates
from diverse_mha.common.options import Method
from diverse_mha.hub import HeadTerms
from diverse_mha.methods.term import TERMS, Term, weight_option


class Typed(Term[BalanceOptions]):
    def value(self, name: str, states: HeadStates, shared: object) -> Tensor:
        reveal_type(self.given)
        return states.required("outputs")


def use(x: Tensor, bert: PreTrainedModel):
    reveal_type(TERMS.register(Balance))
    reveal_type(list(TERMS))
    reveal_type(list(AGGREGATION))
    reveal_type(weight_option("0.0", ""))
    reveal_type((cka(x, x), svcca(x, x).coefficients, attention_entropy(x).entropy))
    run = diverse_mha.load("checkpoint_best.pt", "data").run(["Ein Haus ."])
    reveal_type(run.heads["cross"].weights[0])
    with HeadTerms(bert, hsic_weight=1e-7) as terms, terms.collect({}) as heads:
        reveal_type(terms.trainer(Seq2SeqTrainer)())
        reveal_type((heads.loss(), heads.values, heads.sample_size))


def misuse(x: Tensor):
    TERMS.register(BalanceOptions)
    AGGREGATION.register(Method("x", "x", len, ScaledOptions))
    LOGITS.register(Method("x", "x", build, ScaledOptions))
    diverse_mha.load("models/marian").run(["Ein Haus."], states=("keys",)).heads["cross"].weights[0]
"""
REVEALED = [
    "BalanceOptions",
    "type[Balance]",
    "list[type[Term[Any]]]",  # options differ by term
    "list[Method[Any, Module]]",
    "str",
    "tuple[float, Tensor, Tensor]",
    "Tensor",
    "Seq2SeqTrainer",
    "tuple[Tensor | float, dict[str, float], Tensor | int]",
]


def test_a_checker_knows_the_types_of_a_plugin_and_of_what_it_uses(tmp_path):
    page = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    for name, code in re.findall(r"^```python\n# (\w+)/\S+\n(.*?)^```", page, re.M | re.S):
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True)
    found = json.loads(done.stdout)["generalDiagnostics"]
    shown = [re.match(r'Type of ".*" is "(.*)"', one["message"], re.S) for one in found]
    assert [match[1] for match in shown if match] == REVEALED
    errors = [one for one, match in zip(found, shown, strict=True) if not match]
    wrong = range(PROGRAM[: PROGRAM.index("def misuse")].count("\n") + 1, PROGRAM.count("\n"))
    places = {(one["file"], one["range"]["start"]["line"]) for one in errors}
    assert places == {(str(tmp_path / "program.py"), line) for line in wrong}, errors
