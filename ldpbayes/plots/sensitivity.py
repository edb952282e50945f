"""The picture of a sensitivity curve: an answer against the share of respondents who ignore the device."""

from typing import Any

from ldpbayes.plots.base import LABEL, WIDTH, Canvas, checked, turning


@checked()
def plot_sensitivity(curve: Any, *, ax: Any = None, **style: Any) -> Any:
    """Return a matplotlib figure of an answer for every γ that the reports allow, and the γ at which a conclusion turns."""
    canvas = Canvas(ax, style, (WIDTH, 4.0))
    (axes,), color = canvas.axes, canvas.colors[0]
    symbol = curve.attrs.get("symbol", "γ")
    gamma, answer, error = (curve[name].values for name in ("gamma", "answer", "error"))
    low, high = answer - 1.96 * error, answer + 1.96 * error
    words = f"95 % interval at each {symbol}"
    band = axes.fill_between(gamma, low.clip(0, 1), high.clip(0, 1), color=color, alpha=0.2, lw=0, label=words)
    handles = [*axes.plot(gamma, answer, color=color, lw=2, label="MLE"), band]
    handles += turning(canvas, curve.threshold, curve.turning, symbol)
    which = f"all {symbol} that the reports allow" if curve.allowed else "two standard deviations about the estimate"
    who = "deny" if symbol == "δ" else "ignore the device"
    axes.set_xlabel(f"{symbol}, the share who {who}\n({which})", fontsize=LABEL)
    axes.set_ylabel("share among those who follow it", fontsize=LABEL)
    return canvas.finish(curve.question, handles, width=60)
