"""The code and commands of docs/hub.md run."""

import os
import re
import subprocess

import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from diverse_mha.common.files import ROOT  # noqa: E402
from diverse_mha.hub import HeadTerms  # noqa: E402
from tests import warm  # noqa: E402
from tests.hub.models import batch, build  # noqa: E402
from tests.hub.test_trainer import arguments, rows, stack  # noqa: E402

PAGE = (ROOT / "docs/hub.md").read_text(encoding="utf-8")
TRAINER, LOOP = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


def test_trainer_code_of_the_page_trains_with_terms(tmp_path):
    data = rows("marian")
    space = {"model": build("marian"), "arguments": arguments(tmp_path), "data": data}
    space["stack"] = stack
    exec(TRAINER.replace("train_dataset=data", "train_dataset=data, data_collator=stack"), space)
    assert space["trainer"].state.log_history[0].keys() >= {"loss", "cka", "diversity_loss"}
    assert space["model"].config._attn_implementation == "sdpa"
    assert len(TRAINER.splitlines()) <= 12


def test_training_loop_of_the_page_adds_terms(capsys):
    model, inputs = build("bert"), batch("bert")
    with HeadTerms(model, cka_weight=1.0) as terms:
        space = {"terms": terms, "model": model, "batch": inputs}
        exec(LOOP, space)
    assert "'cka'" in capsys.readouterr().out and space["loss"] > model(**inputs).loss


def test_every_option_on_the_page_exists():
    table = PAGE.partition("## What is added")[0]
    found = re.findall(r"^\| .* \| `(.*=.*)`.* \|$", table, re.M)
    assert len(found) == 7
    for options in found:
        given = dict(re.findall(r"(\w+)=([\w.\"-]+)", options))
        values = {name: eval(value) for name, value in given.items()}
        if not {"disagreement", "drophead"} & values.keys():
            values = {"cka_weight": 1.0, "hsic_weight": 1.0} | values
        HeadTerms(build("marian"), **values).close()


@pytest.mark.parametrize(
    ("command", "rows"),
    [
        pytest.param(
            ["examples/head_terms.py", "2"],
            ["loss  eval loss", "baseline", "drophead"],
            marks=pytest.mark.integration,
        ),
        pytest.param(
            ["-m", "benchmarks.hub", "--width=8", "--layers=1", "--length=8", "--rounds=2"],
            ["| training with | Marian | BERT |", "| HSIC |", "| eager |"],
            marks=pytest.mark.system,
        ),
    ],
)
def test_example_and_benchmark_of_the_page_run(command, rows):
    python = warm.server()
    done = subprocess.run(
        [python.python, *command], cwd=ROOT, env=os.environ | python.variables,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert all(row in done.stdout for row in rows)
