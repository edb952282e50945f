"""Methods that compute a posterior: Exact, Quadrature, NUTS, …; ``fit(data, method=NUTS())`` takes one with its settings."""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.methods.exact import Exact as Exact
    from ldpbayes.methods.hmc import HMC as HMC
    from ldpbayes.methods.nuts import NUTS as NUTS
    from ldpbayes.methods.pair_slice import PairSlice as PairSlice
    from ldpbayes.methods.quadrature import Quadrature as Quadrature
    from ldpbayes.methods.surrogate import Surrogate as Surrogate
    from ldpbayes.methods.weighted import Weighted as Weighted

_HOMES = {
    "NUTS": "methods.nuts",
    "Exact": "methods.exact",
    "HMC": "methods.hmc",
    "PairSlice": "methods.pair_slice",
    "Quadrature": "methods.quadrature",
    "Surrogate": "methods.surrogate",
    "Weighted": "methods.weighted",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)
