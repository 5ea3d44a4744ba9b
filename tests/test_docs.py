"""docs/options.md and docs/attention.md agree with the code."""

import inspect
import re
import subprocess
import sys

import pytest

from diverse_mha import options
from diverse_mha.attention.core import HeadStates
from diverse_mha.common.files import ROOT

OPTIONS = (ROOT / "docs" / "options.md").read_text()


def test_every_option_is_in_the_document_with_its_default_and_help():
    """If architectures differ in a default, the document has the most frequent value."""
    rows = dict(re.findall(r"^\| `--([a-z-]+)` \| (.*) \|$", OPTIONS, re.M))
    defaults: dict[str, list[str]] = {}
    for component in options.components().values():
        for option in component.options:
            name = option.name.replace("_", "-")
            defaults.setdefault(name, []).append(options.default_of(option))
            assert rows[name].endswith(f" | {option.metadata['help']}"), name
    assert rows.keys() == defaults.keys()
    for name, values in defaults.items():
        assert rows[name].split(" |")[0] == max(values, key=values.count), name


@pytest.mark.integration
def test_the_torch_example_runs_without_fairseq():
    page = (ROOT / "docs/attention.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    blocked = "import sys; sys.modules['fairseq'] = None\nimport diverse_mha.analysis.similarity\n"
    blocked += "from diverse_mha.methods import coda, drophead, routing\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocked + code],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    found = re.findall(r"weight (\S+): (\d+)% right, .* (\d\.\d+)", done.stdout)
    assert [weight for weight, _, _ in found] == ["0.0", "1.0"], done.stderr
    (_, plain_right, plain), (_, right, score) = found
    assert min(int(plain_right), int(right)) > 90 and float(score) > float(plain) + 0.05


@pytest.mark.parametrize("name", ["extending", "design", "arrays"])
def test_a_page_gives_head_states_the_shapes_of_the_code(name):
    """Queries and keys differ in length in attention to the encoder."""
    page = " ".join((ROOT / f"docs/{name}.md").read_text().replace("|", " ").split())
    code = inspect.getsource(HeadStates)
    shapes = dict(re.findall(r"(\w+): Tensor \| None = None  # (\(B, H, \w, \w\))", code))
    listed = re.findall(
        r"((?:`?\w+`?(?:, | and | are ))*`?\w+`?(?: are)?) (\(B, H, \w, \w\))", page
    )
    # The words before a shape include its states.
    found = {word: shape for words, shape in listed for word in re.findall(r"\w+", words.lower())}
    assert {state: found[state] for state in shapes} == shapes
