"""CITATION.cff has what the Citation File Format 1.2 requires, and this version."""

import yaml

from diverse_mha import __version__
from tests.docs.blocks import ROOT


def test_the_citation_file_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == __version__
    # The papers' references are those of the BibTeX file.
    bibtex = (ROOT / "docs/papers.bib").read_text(encoding="utf-8")
    assert [reference["url"] for reference in citation["references"] if reference["url"] in bibtex]
    assert bibtex.count("\n@") + 1 == len(citation["references"])
