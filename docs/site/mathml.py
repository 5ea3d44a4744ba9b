r"""Sphinx extension: equations as MathML.

Browsers draw MathML themselves, so the site needs no script for equations, and no network. Sphinx'
own renderer loads MathJax, several megabytes, from the network or from a copy in the repository.
"""

import re

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

LOG = logging.getLogger(__name__)
#: Patterns of commands that docutils does not know -> commands that it does.
ALIASES = {r"\\dots(?![a-zA-Z])": r"\\ldots", r"\\([bB]igg?)(?![a-zA-Z])": r"\\\1l"}


def mathml(node, *, block: bool = False) -> str:
    """Return an equation as MathML; warn of one that docutils cannot read."""
    text = node.astext()
    for unknown, known in ALIASES.items():
        text = re.sub(unknown, known, text)
    try:
        return latex2mathml.tex2mathml(text, as_block=block)
    except MathError as error:
        LOG.warning("equation %r: %s", node.astext(), error, location=node)
        return ""


def _visit_math(self, node):
    self.body.append(mathml(node))
    raise nodes.SkipNode


def _visit_math_block(self, node):
    self.body.append(f'<div class="equation">{mathml(node, block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer, and use it."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_visit_math, None), block_renderers=(_visit_math_block, None)
    )
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
