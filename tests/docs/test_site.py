"""The documentation site is built without a warning, and loads nothing from the network."""

import re
import subprocess

import pytest

from diverse_mha.cli import COMMANDS
from tests.docs.blocks import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        ["bash", str(ROOT / "scripts/site.sh"), str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_and_notebook_is_on_the_site_and_in_its_sidebar(site):
    front = (site / "index.html").read_text(encoding="utf-8")
    pages = [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("notebooks/*.ipynb"),
        *ROOT.glob("results/*.md"),
    ]
    for page in pages:
        name = str(page.relative_to(ROOT).with_suffix(".html"))
        assert (site / name).is_file(), name
        assert f'href="{name}"' in front, name


def test_the_site_loads_nothing_from_the_network(site):
    loads = re.compile(
        r'<(?:script|img|iframe|link rel="stylesheet")[^>]*(?:src|href)="(?:https?:)?//[^"]*'
    )
    found = [hit for page in site.rglob("*.html") for hit in loads.findall(page.read_text("utf-8"))]
    assert not found
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert not [hit for text in styles for hit in re.findall(r"url\([\"']?https?:[^)]*", text)]


def test_the_site_describes_every_command(site):
    text = (site / "docs/site/commands.html").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f'id="diverse-mha-{name}"' in text
    assert "no-compound-split" in text
