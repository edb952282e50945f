"""How commands print: pages on standard output, warnings and errors as sentences on standard error."""

import contextlib
import sys
import warnings

from ldpbayes.errors import LDPBayesWarning
from ldpbayes.pages.renderers.json import JSON
from ldpbayes.pages.renderers.terminal import Terminal, err, out

#: Warnings printed by this run of the command line.
_said: set[str] = set()


def display(page, as_json=False):
    """Print a page: as tables and sentences, or as JSON."""
    if as_json:
        sys.stdout.write(JSON().render(page))
        return
    # Where both streams go to one screen, a warning stands there already.
    Terminal(hints=True).display(page.without(_said) if sys.stdout.isatty() and sys.stderr.isatty() else page)


def wrote(*paths):
    """Say which files were written."""
    for path in filter(None, paths):
        out.print(f"Wrote {path}.")


def complain(sentence, style="red"):
    """Print a sentence on standard error."""
    err.print(sentence, style=style)


@contextlib.contextmanager
def warnings_as_sentences():
    """Print each warning of ldpbayes once, as a sentence on standard error."""
    _said.clear()

    def show(message, category, *args, **kwargs):
        if issubclass(category, LDPBayesWarning) and str(message) not in _said:
            _said.add(str(message))
            complain(f"Warning: {message}", "yellow")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", LDPBayesWarning)
        warnings.showwarning = show
        yield
