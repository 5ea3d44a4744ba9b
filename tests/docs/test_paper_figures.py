"""Published figures of the papers: each is small, has its points, and is on the page."""

import csv
import re

from experiments.papers import PAPERS
from results.models import FILE, models
from tests.docs.blocks import ROOT

FOLDER = ROOT / "results" / "papers"
PAGE = ROOT / "results" / "papers.md"
SHOWN = re.findall(r"!\[[^]]+\]\(papers/([^)]+\.png)\)", PAGE.read_text(encoding="utf-8"))


def test_the_page_shows_every_published_picture_and_no_other():
    assert sorted(SHOWN) == sorted(path.name for path in FOLDER.glob("*.png"))


def test_every_picture_is_below_100_kb_and_has_its_points():
    for name in SHOWN:
        assert (FOLDER / name).stat().st_size < 100_000, name
        with (FOLDER / name).with_suffix(".points.csv").open(encoding="utf-8", newline="") as file:
            assert len(list(csv.reader(file))) > 2, name


def test_scores_of_every_shown_model_are_published():
    with FILE.open(encoding="utf-8", newline="") as file:
        published = {row["run"]: row["figures"] for row in csv.DictReader(file)}
    assert published == {run.name: "; ".join(shown) for run, shown in models().items()}


def test_every_figure_of_the_papers_is_shown_or_named_as_not_run():
    text = PAGE.read_text(encoding="utf-8")
    shown, _, missing = text.partition("## Not run")
    for table in (t for items in PAPERS.values() for t in items.values() if t.draw):
        stem = f"{table.paper}-{table.name}"
        assert any(name.startswith(stem) for name in SHOWN) != (stem in missing), stem
        if stem not in missing:
            assert f"reproduce {table.paper} {table.name} --scale small" in shown, stem
