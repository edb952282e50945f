"""What a result says beside its arrays, by name."""

import numpy as np
import xarray as xr


def log_evidence(tree: xr.DataTree) -> tuple[float, float] | None:
    """Return (log-evidence, its standard error) that a fit found; None where it has none, or where there are several cells.

    Parameters
    ----------
    tree : DataTree
        A result of fit().
    """
    if "exact" in tree.children and "log_evidence" in tree["exact"]:
        evidence = tree["exact"]["log_evidence"]
        return (float(evidence), float(tree.attrs.get("log_evidence_error", 0.0))) if evidence.ndim == 0 else None
    value = tree.attrs.get("log_evidence")
    return None if value is None or np.ndim(value) else (float(value), float(tree.attrs.get("log_evidence_error", 0.0)))
