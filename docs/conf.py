"""Sphinx configuration: `make docs` builds the site into docs/_build."""

import html
import pathlib
import re
import shutil
import sys

from docutils import nodes
from latex2mathml.converter import convert

import ldpbayes

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tools"))
from blocks import BLOCK, needed  # noqa: E402

shutil.rmtree(HERE / "tutorials", ignore_errors=True)
shutil.copytree(HERE.parent / "notebooks", HERE / "tutorials")

project = "ldpbayes"
author = "The ldpbayes developers"
release = version = ldpbayes.__version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "jupyter_execute", "studies/tables"]
autosummary_generate = True
templates_path = ["_templates"]  # pages of classes list what is their own, not what they inherit
numpydoc_show_class_members = False
nb_execution_mode = "off"  # pages show the outputs that the notebooks hold; `make notebooks` executes them
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
html_theme = "pydata_sphinx_theme"
html_title = "ldpbayes"
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 5,  # one row at 1,280 pixels: what follows in the list of the first page is under "More"
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {page.stem: [] for page in HERE.glob("*.md") if page.stem != "learn"}  # nothing lies below these pages
html_sidebars |= {folder: [] for folder in ("tutorials/*", "studies/*")}  # wide tables need the room
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"


def _inline_math(self, node):
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block_math(self, node):
    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


#: How a block of Python begins on a page.
BEGINNING = '<div class="highlight-python notranslate"><div class="highlight"><pre><span></span>'


def _with_needs(app, page, template, context, document):
    """Put the lines above that a block needs into it, unseen: the copy button takes them along, and the block runs alone."""
    source = HERE / f"{page}.md"
    if not document or not source.exists():
        return
    above = needed([code for code, _ in BLOCK.findall(source.read_text(encoding="utf-8"))])
    if len(above) != context["body"].count(BEGINNING):
        raise SystemExit(
            f"{page}: as many blocks of Python are shown as the page has, or a copy would take along the wrong lines."
        )
    lines_above = iter(above)

    def add(found):
        lines = next(lines_above)
        return found[0] + (f'<span class="needs">{html.escape(lines)}\n</span>' if lines else "")

    context["body"] = re.sub(re.escape(BEGINNING), add, context["body"])


def setup(app):
    """Render mathematics as MathML when the site is built: no script, no request to another host."""
    app.connect("html-page-context", _with_needs)
    app.add_html_math_renderer("mathml", (_inline_math, None), (_block_math, None))


html_math_renderer = "mathml"
