"""Chains of the No-U-Turn sampler on a log-density with its gradient; no model is compiled."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ldpbayes.errors import ConvergenceError, no_foreign_errors
from ldpbayes.inference.constants import MOST_STARTS

#: The sampler's statistics that are kept, by its names, and ArviZ's names for them.
STATISTICS = {
    "diverging": "diverging",
    "depth": "tree_depth",
    "n_steps": "n_steps",
    "energy": "energy",
    "step_size": "step_size",
    "mean_tree_accept": "acceptance_rate",
    "logp": "lp",
}


def sample_density(
    density: Callable[[np.ndarray], tuple[float, np.ndarray]],
    begin: Callable[[np.random.Generator], np.ndarray],
    rng: np.random.Generator,
    *,
    size: int,
    draws: int,
    tune: int,
    chains: int,
    target_accept: float,
    watch: Any = None,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return (draws (chains, draws, size), statistics by ArviZ's names); fewer draws after an interruption.

    Parameters
    ----------
    density : callable
        u (size,) → (log-density, gradient). Where one of them is not finite, or arithmetic fails, the probability counts as
        zero.
    begin : callable
        Generator → where a chain starts, (size,).
    rng : numpy.random.Generator
        One number is drawn for the sampler's seed.
    size : int
        Number of unknowns.
    draws, tune, chains : int
        Kept and discarded draws of a chain, and chains.
    target_accept : float
    watch : Watch, optional
        Shows progress where asked to, and remembers an interruption.

    Raises
    ------
    ConvergenceError
        Where the sampler stopped, or the density failed otherwise than by arithmetic.
    KeyboardInterrupt
        Where sampling was interrupted before any chain had four draws.
    """
    from nutpie.compiled_pyfunc import from_pyfunc

    nowhere, failures = (-math.inf, np.zeros(size)), []

    def log_density(u):
        # The sampler's thread panics on an exception, for good.
        try:
            with np.errstate(all="ignore"):
                value, slope = density(u)
        except (ArithmeticError, ValueError):
            return nowhere
        except Exception as error:
            failures.append(error)
            return nowhere
        return (value, slope) if math.isfinite(value) and np.isfinite(slope).all() else nowhere

    def make_expand(seed, _, chain):
        return lambda u: {"u": np.asarray(u, dtype=np.float64)}

    def start(seed):
        fresh = np.random.default_rng(abs(int(seed)))
        return next((u for u in (begin(fresh) for _ in range(MOST_STARTS)) if log_density(u)[0] > -math.inf), begin(fresh))

    model = from_pyfunc(
        size, lambda: log_density, make_expand, [np.dtype("float64")], [(size,)], ["u"], make_initial_point_fn=start
    )
    settings = {"draws": draws, "tune": tune, "chains": chains, "target_accept": target_accept}
    shown, seed = watch is not None and watch.shown, int(rng.integers(2**31))
    drawn, stats = by_nutpie(model, "u", shown, cores=1, seed=seed, **settings)
    if failures:
        raise ConvergenceError(f"The density failed: {type(failures[0]).__name__}: {failures[0]}.") from failures[0]
    if watch is not None and drawn["u"].shape[:2] != (chains, draws):
        watch.interrupted = True
    return drawn["u"], stats


def by_nutpie(model: Any, name: str, shown: bool, **settings: Any) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return (draws (chains, draws, …) by variable, statistics by ArviZ's names), of what was finished at an interruption.

    Parameters
    ----------
    model : compiled model of nutpie
    name : str
        Name of a variable that says which draws were finished.
    shown : bool
        Whether progress is shown.
    **settings
        Arguments of nutpie.sample.
    """
    import nutpie

    with no_foreign_errors("The sampler nutpie"):
        trace = nutpie.sample(model, save_warmup=False, progress_bar=shown, **settings)
    drawn, stats = trace["posterior"], trace["sample_stats"]
    chosen, length = finished(drawn[name].values)
    named = {key: drawn[key] for key in drawn}, {name: stats[key] for key, name in STATISTICS.items() if key in stats}
    first, second = ({key: values.values[chosen, :length] for key, values in group.items()} for group in named)
    return first, second


def finished(draws: np.ndarray) -> tuple[np.ndarray, int]:
    """Return (chains, length): the largest rectangle of finite draws, all of them unless sampling was interrupted.

    Parameters
    ----------
    draws : (chains, draws, k) array

    Raises
    ------
    KeyboardInterrupt
        Where no chain has four draws.
    """
    lengths = np.isfinite(draws).all(axis=-1).sum(axis=1)
    order = np.argsort(-lengths, kind="stable")
    whole = int((lengths[order] * np.arange(1, len(order) + 1)).argmax()) + 1
    length = int(lengths[order[whole - 1]])
    if length < 4:
        raise KeyboardInterrupt("sampling was interrupted before any chain had four draws")
    return np.sort(order[:whole]), length
