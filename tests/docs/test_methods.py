"""The programs of docs/methods/ run, without fairseq, and print what the pages show."""

import re
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT

PAGES = sorted(ROOT.glob("docs/methods/[a-z]*.md"))
PROGRAM = re.compile(r"^```python\n(.*?)^```\n\n```\n(.*?)^```", re.M | re.S)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
WITHOUT_FAIRSEQ = "import sys; sys.modules['fairseq'] = None\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_program_of_a_page_prints_its_output(page):
    ((code, shown),) = PROGRAM.findall(page.read_text(encoding="utf-8"))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FAIRSEQ + code], capture_output=True, text=True, cwd=ROOT
    )
    assert NUMBER.sub("N", done.stdout) == NUMBER.sub("N", shown), done.stderr
    # Numbers differ with the processor's rounding.
    printed, expected = ([float(n) for n in NUMBER.findall(text)] for text in (done.stdout, shown))
    assert printed == pytest.approx(expected, rel=0.02, abs=0.02)


def test_the_index_links_to_every_page():
    index = (ROOT / "docs/methods/README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(([a-z-]+\.md)\)", index)) == {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_disagreement_is_switched_on_with_a_weight(page):
    """The default weight, which is the paper's, makes small models fail to train."""
    for command in re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
        if "disagreement_" in command or "--disagreement" in command:
            assert "disagreement_weight=0.1" in command and "--disagreement-weight 0.1" in command
