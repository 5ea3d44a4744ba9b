"""Configuration of Sphinx for the documentation site, which ``scripts/site.sh`` builds.

The sources are the Markdown pages of the repository, so that the same files can be read on the code
host and on the site. README.md is the front page. Only the pages of ``docs/site/`` are for the site
alone: the Python interface and the commands. The built site loads nothing from the network.
"""

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE)]

import commands  # noqa: E402

from diverse_mha import __version__  # noqa: E402

project = "diverse-mha"
copyright = "the authors of diverse-mha"  # noqa: A001
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "mathml",
]
root_doc = "README"
include_patterns = [
    "*.md",
    "docs/**.md",
    "notebooks/*.ipynb",
    "results/*.md",
    "results/plans/*.md",
    "tests/promises.md",
]
exclude_patterns = [".*", "build", "data", "dist", "outputs", "runs", "multirun", "**/__pycache__"]

# Markdown as the code host reads it.
myst_enable_extensions = ["alert", "attrs_block", "deflist", "dollarmath", "html_image"]
myst_fence_as_directive = ["math"]  # equations in blocks, as the code host reads them
myst_heading_anchors = 6
suppress_warnings = ["myst.header"]  # a heading may skip a level
nb_execution_mode = "off"  # tests execute the notebooks, whose files have their outputs
highlight_language = "none"
smartquotes_action = "D"  # dashes only

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = "diverse-mha"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
copybutton_exclude = ".linenos, .gp, .go"

#: Pages by section of the sidebar. Pages that are in no section are added to the last one.
SECTIONS = {
    "Start": ["install", "why-heads", "tutorial", "which-method", "coming-from"],
    "Methods": ["methods/README", "methods/*", "equations"],
    "Notebooks": ["/notebooks/*"],
    "Guides": [
        "README",
        "data",
        "recipes",
        "heads",
        "align",
        "arrays",
        "hub-heads",
        "hub",
        "attention",
        "classification",
        "reproduce",
        "cluster",
        "deploy",
        "extending",
        "errors",
    ],
    "Results": ["results", "evidence", "study", "performance", "/results/papers"],
    "Reference": ["site/commands", "options", "analysis", "glossary", "reliability"],
    "Python interface": ["site/api/*"],
    "Project": ["design", "*", "/CONTRIBUTING", "/CHANGELOG", "/results/README"],
}
#: Pages below another page in the sidebar.
CHILDREN = {"results/README": ["/results/*", "/results/plans/*", "/tests/promises"]}


def find(patterns: list[str]) -> list[str]:
    """Return the pages that match some patterns, which begin at docs/, or at the root with /."""
    names = []
    for pattern in patterns:
        folder = ROOT if pattern.startswith("/") else ROOT / "docs"
        for suffix in (".md", ".ipynb"):
            for path in sorted(folder.glob(pattern.lstrip("/") + suffix)):
                names.append("/" + str(path.relative_to(ROOT).with_suffix("")))
    return names


def contents() -> dict[str, str]:
    """Return the sidebar as MyST directives, by the page that has to contain them.

    A page that several patterns match appears where it is named first.
    """
    placed = {"/README"}
    blocks = {root_doc: ""}
    for caption, patterns in SECTIONS.items():
        first = [n for n in dict.fromkeys(find(patterns)) if n not in placed]
        placed.update(first)
        if first:
            blocks[root_doc] += toctree(first, caption)
    for name, patterns in CHILDREN.items():
        blocks[name] = toctree([n for n in find(patterns) if n not in placed])
    return blocks


def toctree(names: list[str], caption: str = "") -> str:
    """Return a hidden toctree of some pages."""
    title = [f":caption: {caption}"] if caption else []
    return "\n".join(["", "", "```{toctree}", ":hidden:", *title, "", *names, "```", ""])


def setup(app):
    """Add what is generated to the pages, and make README the front page."""
    sidebar = contents()

    def add_generated(_, name, source):
        source[0] += sidebar.get(name, "")
        if name == "docs/site/commands":
            source[0] += f"\n\n{commands.markdown()}\n"

    def copy_front_page(app, error):
        if error is None and app.builder.name == "html":
            shutil.copy(Path(app.outdir, "README.html"), Path(app.outdir, "index.html"))

    # Read again in every build, because they depend on other files than their own.
    generated = [*sidebar, "docs/site/commands"]
    app.connect("env-get-outdated", lambda *_: generated)
    app.connect("source-read", add_generated)
    app.connect("build-finished", copy_front_page)
