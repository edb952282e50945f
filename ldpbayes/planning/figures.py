"""Figures of plans: the planned errors along ε or n, and what more trials of a device are worth."""

from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.planning.plans import Plans, curves
from ldpbayes.plots.base import BLACK, SMALL, WIDTH, Canvas, Drawn, _plain_ticks, _style, checked, wrapped

#: Display: Points of a plan's curve, and protocols whose curves are drawn: the best ones.
POINTS, DRAWN = 25, 2


@checked({"result": checks.mapping})
def plot_plan(
    result: Any,
    values: Any,
    label: Any,
    *,
    along: Any = "epsilon",
    chosen: Any = None,
    ax: Drawn | None = None,
    **style: Any,
) -> Drawn:
    """Return a figure of planned errors: one curve per protocol, the bound and direct answers in grey.

    Parameters
    ----------
    result : dict of str to (m,) array
        From ``planning.curves``.
    values : (m,) array
        Of ε or n, at which these curves are.
    label : str
        What the error is.
    along : {"epsilon", "n"}
    chosen : (x, error, protocol), optional
        A planned setting to mark, in the colour of its protocol.
    """
    values = checks.reals(values, "values")
    if not (values > 0).all():
        raise ArgumentError("values must be above 0: the axes are logarithmic.")
    curves = {name: checks.reals(error, f"result of {shown(name)}", finite=False) for name, error in result.items()}
    for name, error in curves.items():
        if error.shape != values.shape:
            raise ArgumentError(f"result must have {values.size} numbers each, got {error.size} for {shown(name)}.")
    if chosen is not None:
        chosen = checks.entries(chosen, "chosen", "a triple (x, error, protocol)")
        if len(chosen) != 3:
            raise ArgumentError(f"chosen must be a triple (x, error, protocol), got {shown(chosen)}.")
        chosen = checks.positive(chosen[0], "chosen"), checks.positive(chosen[1], "chosen"), checks.text(chosen[2], "chosen")
    canvas = Canvas(ax, style, (WIDTH, 3.3 + 0.1 * len(curves)))
    (axes,) = canvas.axes
    floors = {"bound": ("0.2", "-", "least possible error"), "direct answers": ("0.5", ":", "direct answers")}
    marked, places = None, max(6, sum(name not in floors for name in curves))
    for i, (name, error) in enumerate(curves.items()):
        if name in floors:
            if np.isfinite(error).any():
                color, dashes, words = floors[name]
                axes.plot(values, error, dashes, color=color, lw=1.2, label=words)
            continue
        look = _style(i, canvas.colors)
        # Markers of different curves stand at different places: curves that coincide still show theirs.
        axes.plot(values, error, **look, ms=5, markevery=(i % places, places), label=_words(name))
        if chosen is not None and chosen[2] == name:
            marked = look["color"]
    if chosen is not None:
        words = f"planned: {_words(chosen[2])}"
        axes.plot(*chosen[:2], "*", color=marked or BLACK, ms=15, mec="black", mew=0.8, ls="", zorder=5, label=words)
    axes.set(xscale="log", yscale="log", xlabel={"epsilon": "privacy level ε (nats)", "n": "number of reports n"}[along])
    axes.set_ylabel(wrapped(label, 24), fontsize=SMALL)
    _plain_ticks(axes.xaxis, values)
    _plain_ticks(axes.yaxis, axes.get_ylim())
    axes.grid(alpha=0.3, lw=0.5)
    return canvas.finish("Planned error", most=3)


def drawn_plans(plans: Plans, what: str, *, ax: Drawn | None = None, **style: Any) -> Drawn:
    """Return the picture of plans: errors of the best protocols around the best plan, which is marked.

    Parameters
    ----------
    plans : Plans
        The first of them feasible.
    what : str
        What the error is, in words.
    ax, **style
        As for ``plot_plan``.
    """
    best, asked = plans[0], dict(plans.asked)
    along = asked.pop("along")
    middle = best.n if along == "n" else best.epsilon
    values = np.geomspace(middle / 10, middle * 10, POINTS) if along == "n" else np.geomspace(0.1, max(5.0, middle), POINTS)
    setting = {"epsilon": best.epsilon} if along == "n" else {"n": best.n}
    every = curves(along, values, n_categories=best.n_categories, kind=plans.kind, **setting, **asked)
    fixed = f"{best.users:,} reports" if along == "epsilon" else f"ε = {best.epsilon:.3g}"
    style = {"title": f"Error of {best.n_categories} categories at {fixed}, by protocol"} | style
    drawn = {name: every[name] for name in (*[plan.protocol for plan in plans[:DRAWN]], "bound") if name in every}
    return plot_plan(drawn, values, what, along=along, chosen=(middle, best.error, best.protocol), ax=ax, **style)


def drawn_trials(study: Any, *, ax: Drawn | None = None, **style: Any) -> Drawn:
    """Return the picture of more trials of a device: the sd of the least certain share along them.

    Parameters
    ----------
    study : ValidationStudy
    ax, **style
        As for ``plot_plan``.
    """
    times, sd = np.array(study.times), study.sd[:, study.least_certain]
    canvas = Canvas(ax, style, (WIDTH, 3.3))
    (axes,), finite, order = canvas.axes, np.isfinite(times), np.argsort(times)
    axes.plot(times[order][finite[order]], sd[order][finite[order]], "o-", color=canvas.colors[0], label="after the trials")
    if not finite.all():
        axes.axhline(sd[~finite][0], color="0.5", ls=":", lw=1.2, label="were the device known")
    axes.set(xscale="log", ylim=(0, None), xlabel="trials, as multiples of those so far")
    axes.set_ylabel(wrapped("sd of the least certain share", 24), fontsize=SMALL)
    if finite.any():
        _plain_ticks(axes.xaxis, times[finite])
    axes.grid(alpha=0.3, lw=0.5)
    return canvas.finish("What more trials of the device are worth", most=2)


_WORDS = {"mle": "MLE", "norm_sub": "Norm-Sub", "mse": "mean squared error", "distribution": "P", "frequency": "F"}
_WORDS |= {"grr": "GRR", "oue": "OUE", "sue": "SUE", "olh": "OLH", "subset": "subset selection", "hadamard": "Hadamard"}


def _words(value):
    """Return a value of a study's table as people read it."""
    return _WORDS.get(value, str(value).replace("_", " "))
