"""Ctrl-C while a command loads its modules: a sentence and exit status 130, as everywhere later.

The first second of a command passes before any function of it runs, so the package imports this file first. It does nothing
where the package is not loaded by the command line.
"""

import os
import signal
import sys

#: What is said on Ctrl-C.
SENTENCE = "ldpbayes: interrupted; no file was left incomplete."


def _is_command():
    """Return whether this process is ``ldpbayes …`` or ``python -m ldpbayes …``."""
    name = os.path.basename((vars(sys).get("argv") or [""])[0])  # an embedded interpreter has none
    return name in ("ldpbayes", "ldpbayes.exe") or (name == "-m" and "ldpbayes" in sys.orig_argv)


def _leave(number, frame):
    os.write(2, f"{SENTENCE}\n".encode())
    os._exit(130)


def started():
    """Let Ctrl-C be a KeyboardInterrupt again, as the command line has it once it runs."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _leave)
