"""Compiled functions: numba's and PyTensor's, kept on disk where they can be written and compiled anew where not.

In many containers neither the package nor the home folder can be written.
"""

import atexit
import contextlib
import functools
import pathlib
import pickle
import shutil
import tempfile

#: What reading and writing a cached function may end in: a full disk, a file that was cut off.
_CACHE_ERRORS = (OSError, EOFError, ValueError, pickle.UnpicklingError)


def compiled(**options):
    """Return a decorator that compiles a function, and keeps the machine code for the next process where it can.

    numba itself refuses to decorate a function where neither its folder nor the user's cache folder can be written, and
    fails in the first call where the disk is full. Here the function is then compiled anew in each process.

    Parameters
    ----------
    **options
        Of ``numba.njit``, such as ``nogil``.

    Returns
    -------
    callable

    Examples
    --------
    >>> @compiled(nogil=True)
    ... def double(x):
    ...     return 2 * x
    >>> double(21)
    42
    """

    from numba import njit

    def decorate(function):
        dispatcher = njit(**options)(function)
        with contextlib.suppress(RuntimeError):  # no locator available: nowhere to write
            dispatcher._cache = _optional_cache()(function)
        return dispatcher

    return decorate


@functools.cache
def _optional_cache():
    """Return numba's class of a function's cache, except that reading and writing may fail without the function failing."""
    from numba.core.caching import FunctionCache

    class OptionalCache(FunctionCache):
        def load_overload(self, *args, **kwargs):
            with contextlib.suppress(*_CACHE_ERRORS):
                return super().load_overload(*args, **kwargs)

        def save_overload(self, *args, **kwargs):
            with contextlib.suppress(*_CACHE_ERRORS):
                super().save_overload(*args, **kwargs)

    return OptionalCache


def give_pytensor_a_folder():
    """Let PyTensor compile in a temporary folder, removed at the end, where its own cannot be made."""
    from pytensor import config

    try:
        config.compiledir  # noqa: B018 - made when it is first asked for
    except ValueError:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="pytensor-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        # PyTensor fixes its base folder when it is imported; its numba kernels go there too.
        type(config).base_compiledir.val = folder
        config.compiledir = folder / "compiled"
