"""How commands print: pages on standard output, warnings and errors as sentences on standard error."""

import contextlib
import dataclasses
import io
import json
import os
import sys
import warnings

from ldpbayes.constants import BROKEN_PIPE
from ldpbayes.errors import DataError, LDPBayesWarning, printable

#: Warnings printed by this run of the command line.
_said: set[str] = set()


def status_of(result) -> int:
    """Return the exit status of a result: 1 where it is not to be trusted, else 3 where something is left out, else 0.

    Reports that contradict the design leave it as it is: of honest ones every twentieth does, and ``check`` is for that.
    """
    return 3 * ("left_out" in result.attrs) if result.attrs.get("converged", 1) else 1


def display(page, as_json=False, explain=False, details=False):
    """Print a page: the answer, its tables and a few notes; all of it where an explanation is asked for; or as JSON.

    Parameters
    ----------
    details : bool
        Whether tables of details are printed without an explanation, too.
    """
    from ldpbayes.pages.renderers.json import JSON
    from ldpbayes.pages.renderers.terminal import Terminal

    if as_json:
        sys.stdout.write(_escaped(JSON().render(page), sys.stdout.encoding))
        return
    if sys.stdout.isatty() and sys.stderr.isatty():  # on one screen, where a warning stands already
        page = page.without(_said)
    page = dataclasses.replace(page, notes=page.ranked()) if explain else page.in_lines("--explain", details)
    Terminal(hints=True).display(page)


def _escaped(text, encoding):
    """Return JSON in which characters are escaped that an encoding lacks, or that a terminal obeys."""

    def safe(character):
        try:
            character.encode(encoding or "ascii")
        except UnicodeEncodeError:
            return False
        return printable(character, keep="\n") == character

    return text.translate({ord(c): json.dumps(c)[1:-1] for c in set(text) if not safe(c)})


def say(sentence):
    """Print a sentence on standard output."""
    from ldpbayes.pages.renderers.terminal import out

    out.print(printable(sentence, keep="\n"))


def complain(sentence, style="red"):
    """Print a sentence on standard error."""
    from ldpbayes.pages.renderers.terminal import err

    err.print(printable(sentence, keep="\n"), style=style)


class _Stream:
    """Standard output whose failures are sentences, or standard error, which a command that nobody hears does without.

    On a failure typer and rich would end the process without a sentence, and send standard output nowhere.
    """

    def __init__(self, stream, needed):
        self.stream, self.needed = stream, needed

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, text):
        return self._do(self.stream.write, text)

    def writelines(self, lines):
        return self._do(self.stream.writelines, lines)

    def flush(self):
        return self._do(self.stream.flush)

    def _do(self, call, *arguments):
        try:
            return call(*arguments)
        except OSError as err:
            self._drop()
            if not self.needed:
                return
            if isinstance(err, BrokenPipeError):  # whoever reads has read enough, as head does
                raise SystemExit(BROKEN_PIPE) from None
            raise DataError(f"standard output cannot be written ({err.strerror})") from err

    def _drop(self):
        """Send what is still in the buffer nowhere, so that the interpreter does not fail again at its end."""
        with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)


@contextlib.contextmanager
def standard_streams():
    """Stand in for closed streams, escape what a stream's encoding lacks, and make failures of output DataErrors."""
    streams = sys.stdout, sys.stderr
    with contextlib.ExitStack() as opened:
        if sys.stderr is None:
            sys.stderr = opened.enter_context(open(os.devnull, "w"))
        if sys.stdout is None:  # closed by the caller: what is printed would be lost
            try:
                complain("ldpbayes: standard output is closed.")
                raise SystemExit(2)
            finally:
                sys.stdout, sys.stderr = streams
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, io.UnsupportedOperation):
                stream.reconfigure(errors="backslashreplace")
        sys.stdout, sys.stderr = _Stream(sys.stdout, True), _Stream(sys.stderr, False)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams


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
