"""Compiled functions: numba's and PyTensor's, kept on disk where they can be written and compiled anew where not.

In many containers neither the package nor the home folder can be written.
"""

import atexit
import contextlib
import functools
import hashlib
import pathlib
import pickle
import shutil
import sys
import tempfile
import threading

import numpy as np

#: What reading and writing a cached function may end in: a full disk, a file that was cut off.
_CACHE_ERRORS = (OSError, EOFError, ValueError, pickle.UnpicklingError)


class OneThread:
    """One thread of NumPy's and SciPy's linear algebra while any such block runs.

    Its matrices are small: threads that wait for each other take many times the work where a machine is busy. The outermost
    block restores the number of threads, so that fits in several threads of a process leave it as it was.
    """

    _lock, _inside, _limits = threading.Lock(), 0, None

    def __enter__(self):
        with self._lock:
            OneThread._inside += 1
            if OneThread._inside == 1:
                OneThread._limits = _linear_algebra().limit(limits=1, user_api="blas")
        return self

    def __exit__(self, *exception):
        with self._lock:
            OneThread._inside -= 1
            if OneThread._inside == 0:
                OneThread._limits.restore_original_limits()


@functools.cache
def _linear_algebra():
    import scipy.linalg  # noqa: F401 - brings the second of the two libraries
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def compiled(**options):
    """Return a decorator that compiles a function, and keeps the machine code for the next process where it can.

    numba itself refuses to decorate a function where neither its folder nor the user's cache folder can be written, and
    fails in the first call where the disk is full. Here the function is then compiled anew in each process.

    Compiled code divides as NumPy does: numba's default raises ZeroDivisionError, which a sampler's thread cannot carry.

    Each compiled function holds the code of all that it calls. Otherwise numba optimizes a copy for each caller, under one
    name, and a process takes the copy that it loads first: with ``fastmath`` its last bits depend on earlier compilations.

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

    options = {"error_model": "numpy", "forceinline": True, **options}

    def decorate(function):
        dispatcher = njit(**options)(function)
        with contextlib.suppress(RuntimeError):  # no locator available: nowhere to write
            dispatcher._cache = _optional_cache()(function)
            dispatcher._cache.options = repr(
                (sorted((name, sorted(v) if isinstance(v, set) else v) for name, v in options.items()), _called(function))
            )
        return dispatcher

    return decorate


def _called(function):
    """Return names and versions of the compiled functions that a function has from around it."""
    inner = [cell.cell_contents.py_func for cell in function.__closure__ or ()]
    return [(f.__module__, f.__qualname__, pathlib.Path(f.__code__.co_filename).stat().st_mtime_ns) for f in inner]


@functools.cache
def _announce():
    """Say on standard error, where somebody reads it, why the first call takes long."""
    if sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        with contextlib.suppress(OSError, ValueError):
            print("Compiling numerical functions, which are kept for the next time: up to a minute.", file=sys.stderr)


@functools.cache
def _optional_cache():
    """Return numba's class of a function's cache, except that reading and writing may fail without the function failing."""
    from numba.core.caching import FunctionCache

    class OptionalCache(FunctionCache):
        options = ""

        def _index_key(self, signature, codegen):
            # numba's key leaves the options out, and has functions from around by what differs in each process.
            code = hashlib.sha256(self._py_func.__code__.co_code).hexdigest()
            return signature, codegen.magic_tuple(), code, self.options

        def load_overload(self, *args, **kwargs):
            found = None
            with contextlib.suppress(*_CACHE_ERRORS):
                found = super().load_overload(*args, **kwargs)
            if found is None:
                _announce()
            return found

        def save_overload(self, *args, **kwargs):
            with contextlib.suppress(*_CACHE_ERRORS):
                super().save_overload(*args, **kwargs)

    return OptionalCache


def model_data(name, values, dims=None):
    """Return an array as a ``pm.Data`` of the model on the context stack, with its type kept.

    ``pm.Data`` itself casts integers to int32, and to int16 where PyTensor's ``floatX`` is float32, so that five billion
    reports silently become 705,032,704; it casts float64 to ``floatX``.

    Parameters
    ----------
    name : str
    values : array
        Integers that are to be *observed* must be unsigned: PyMC casts observed signed ones again.
    dims : str or sequence of str, optional
        Of coords that the model has.

    Returns
    -------
    TensorSharedVariable
    """
    import pymc as pm
    import pytensor

    model = pm.modelcontext(None)
    shared = pytensor.shared(np.asarray(values), model.name_for(name))
    model.register_data_var(shared, dims=(dims,) if isinstance(dims, str) else dims)
    return shared


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
