"""Methods that draw from or integrate a posterior: ``fit(data, method=Quadrature())`` takes one with its settings."""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.posteriors.exact import Exact as Exact
    from ldpbayes.posteriors.laplace import Laplace as Laplace
    from ldpbayes.posteriors.nuts import NUTS as NUTS
    from ldpbayes.posteriors.pair_slice import PairSlice as PairSlice
    from ldpbayes.posteriors.quadrature import Denying as Denying
    from ldpbayes.posteriors.quadrature import Quadrature as Quadrature
    from ldpbayes.posteriors.surrogate import Surrogate as Surrogate
    from ldpbayes.posteriors.tally_chain import TallyChain as TallyChain
    from ldpbayes.posteriors.tally_states import TallyStates as TallyStates
    from ldpbayes.posteriors.walk import RandomWalk as RandomWalk

_HOMES = {
    "NUTS": "posteriors.nuts",
    "Denying": "posteriors.quadrature",
    "Exact": "posteriors.exact",
    "Laplace": "posteriors.laplace",
    "PairSlice": "posteriors.pair_slice",
    "Quadrature": "posteriors.quadrature",
    "RandomWalk": "posteriors.walk",
    "Surrogate": "posteriors.surrogate",
    "TallyChain": "posteriors.tally_chain",
    "TallyStates": "posteriors.tally_states",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)
