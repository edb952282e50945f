"""Methods that draw from or integrate a posterior: ``fit(data, method=Quadrature())`` takes one with its settings."""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.posteriors.exact import Exact as Exact
    from ldpbayes.posteriors.hmc import HMC as HMC
    from ldpbayes.posteriors.nuts import NUTS as NUTS
    from ldpbayes.posteriors.pair_slice import PairSlice as PairSlice
    from ldpbayes.posteriors.quadrature import Quadrature as Quadrature
    from ldpbayes.posteriors.surrogate import Surrogate as Surrogate
    from ldpbayes.posteriors.weighted import Weighted as Weighted

_HOMES = {
    "NUTS": "posteriors.nuts",
    "Exact": "posteriors.exact",
    "HMC": "posteriors.hmc",
    "PairSlice": "posteriors.pair_slice",
    "Quadrature": "posteriors.quadrature",
    "Surrogate": "posteriors.surrogate",
    "Weighted": "posteriors.weighted",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)
