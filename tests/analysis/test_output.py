"""The output folder of analyze: numbers, figures and the report."""

import base64
import csv
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from diverse_mha.analysis.figures import FORMATS
from diverse_mha.cli import run

pytestmark = pytest.mark.integration


class Page(HTMLParser):
    """Parser that collects tags of the report."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.sources, self.tags, self.open = set(), [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.ids.add(attrs.get("id"))
        self.links += [attrs["href"]] if "href" in attrs else []
        self.sources += [attrs["src"]] if "src" in attrs else []
        if tag not in ("meta", "img", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def folder(checkpoint, save, data, tmp_path_factory):
    """Output folder for two models, one with a name that needs escaping."""
    hostile = save("<b onload='x'>&", "transformer_coda")
    folder = tmp_path_factory.mktemp("output") / "made" / "here"
    command = ["analyze", str(checkpoint), str(hostile), str(data), "--cpu", "--sentences", "2"]
    more = ["--against", str(checkpoint), "--layers", "last", "--measures", "svcca,disagreement"]
    assert run([*command, *more, "--output", str(folder)]) == 0
    return folder


def test_output_folder_has_scores_figures_and_csv_files(folder):
    content = json.loads((folder / "scores.json").read_text())
    figures = {path.name for path in (folder / "figures").iterdir()}
    assert len(figures) == len(FORMATS) * (1 + 3 + 2), (
        "1 figure of curves, 3 of components, 2 of models"
    )
    assert {"svcca-curves-models.png", "svcca-baseline.svg", "svcca-cross-beside.pdf"} <= figures
    starts = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}
    for path in (folder / "figures").iterdir():
        assert path.read_bytes().startswith(starts[path.suffix])
        assert path.suffix != ".pdf" or b"/Type3" not in path.read_bytes()
    with open(folder / "layers.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * (3 * 2 + 2)
    first = content["models"][0]["components"]["encoder"]["layers"]["2"]["svcca"]["mean"]
    assert float(rows[0]["SVCCA"]) == first
    assert len((folder / "heads.csv").read_text().splitlines()) == 1 + 2 * 3 * 4


def test_page_is_self_contained(folder):
    text = (folder / "report.html").read_text()
    page = Page(text)
    assert not page.open
    assert page.tags.count("script") == 2, "one element holds the data, one the program"
    assert "link" not in page.tags and "b" not in page.tags
    assert not re.search(r"https?://|//cdn|@import|url\(", text)
    assert len(page.sources) == len(list((folder / "figures").glob("*.svg")))
    program = text.rpartition("<script>")[2].partition("</script>")[0].encode()
    policy = "sha256-" + base64.b64encode(hashlib.sha256(program).digest()).decode()
    policy_text = (
        f"default-src 'none'; img-src data:;\nstyle-src 'unsafe-inline'; script-src '{policy}'"
    )
    assert policy_text in text
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    assert page.links and all(link[0] == "#" and link[1:] in page.ids for link in page.links)


def test_names_and_tokens_are_escaped(folder):
    text = (folder / "report.html").read_text()
    assert "&lt;b onload=&#39;x&#39;&gt;&amp;" in text
    assert "<b onload" not in text and "<script>alert" not in text
    view = json.loads(text.partition('id="view-data">')[2].partition("</script>")[0])
    assert view["models"][1]["name"] == "<b onload='x'>&"
    assert [one["number"] for one in view["models"][0]["sentences"]] == [0, 1]
    for path in (folder / "figures").glob("*.svg"):
        assert "<script" not in path.read_text()
