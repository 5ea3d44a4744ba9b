"""Sphinx extension: equations as MathML.

Browsers draw MathML themselves, so the site needs no script for equations, and no network. Sphinx'
own renderer loads MathJax, several megabytes, from the network or from a copy in the repository.
"""

from docutils import nodes
from docutils.utils.math import latex2mathml


def _visit_math(self, node):
    self.body.append(latex2mathml.tex2mathml(node.astext()))
    raise nodes.SkipNode


def _visit_math_block(self, node):
    equation = latex2mathml.tex2mathml(node.astext(), as_block=True)
    self.body.append(f'<div class="equation">{equation}</div>\n')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer, and use it."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_visit_math, None), block_renderers=(_visit_math_block, None)
    )
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
