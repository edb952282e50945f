"""Methods that draw from or integrate a posterior: ``fit(data, method=Quadrature())`` takes one with its settings."""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.posteriors.augmentation import Augmentation
    from ldpbayes.posteriors.exact import Exact
    from ldpbayes.posteriors.laplace import Laplace
    from ldpbayes.posteriors.mixture import Mixture
    from ldpbayes.posteriors.nuts import NUTS
    from ldpbayes.posteriors.pair_slice import PairSlice
    from ldpbayes.posteriors.quadrature import Denying, Quadrature
    from ldpbayes.posteriors.surrogate import Surrogate
    from ldpbayes.posteriors.tally_chain import TallyChain
    from ldpbayes.posteriors.tally_states import TallyStates
    from ldpbayes.posteriors.walk import RandomWalk

_HOMES = {
    "Augmentation": "posteriors.augmentation",
    "Denying": "posteriors.quadrature",
    "Exact": "posteriors.exact",
    "Laplace": "posteriors.laplace",
    "Mixture": "posteriors.mixture",
    "NUTS": "posteriors.nuts",
    "PairSlice": "posteriors.pair_slice",
    "Quadrature": "posteriors.quadrature",
    "RandomWalk": "posteriors.walk",
    "Surrogate": "posteriors.surrogate",
    "TallyChain": "posteriors.tally_chain",
    "TallyStates": "posteriors.tally_states",
}

__all__ = [
    "NUTS",
    "Augmentation",
    "Denying",
    "Exact",
    "Laplace",
    "Mixture",
    "PairSlice",
    "Quadrature",
    "RandomWalk",
    "Surrogate",
    "TallyChain",
    "TallyStates",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
