"""Protocols and survey designs: make_protocol builds each from its name. Each file here is found by the import."""

import importlib
import inspect
import pkgutil

from ldpbayes.protocols import combine, designs
from ldpbayes.protocols.attributes import Attributes
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.protocols.block_design import BlockDesign
from ldpbayes.protocols.channel import Channel
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.combine import compose, kronecker, mixture, product
from ldpbayes.protocols.designs import (
    cheater_detection,
    christofides,
    crosswise,
    direct,
    forced_response,
    kuk,
    stochastic_lie_detector,
    triangular,
    unrelated_question,
    warner,
)
from ldpbayes.protocols.fake_data import FakeData
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing, PooledHashing
from ldpbayes.protocols.noncompliance import Noncompliance
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.rappor_bits import RapporBits
from ldpbayes.protocols.registry import (
    COMBINATORS,
    DESIGNS,
    PROTOCOLS,
    describe_protocols,
    make_protocol,
    protocol_names,
)
from ldpbayes.protocols.repeated import (
    LOLOHA,
    AbstractHistories,
    DBitFlip,
    MemoizedGRR,
    MemoizedRappor,
    MemoizedUnary,
    Repeated,
)
from ldpbayes.protocols.sampled_attribute import SampledAttribute
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):  # those are compiled kernels, loaded where the first large call needs them
        importlib.import_module(f"{__name__}.{_module.name}")


def _below(cls):
    return [one for child in cls.__subclasses__() for one in (child, *_below(child))]


PROTOCOLS.update({cls.name: cls for cls in _below(AbstractProtocol) if cls.registered and not inspect.isabstract(cls)})
DESIGNS.update(designs.DESIGNS)
COMBINATORS.update(combine.COMBINATORS)

__all__ = [
    "GRR",
    "LOLOHA",
    "AbstractHistories",
    "AbstractProtocol",
    "Attributes",
    "BlockDesign",
    "Channel",
    "CohortRR",
    "DBitFlip",
    "FakeData",
    "HadamardResponse",
    "LocalHashing",
    "MemoizedGRR",
    "MemoizedRappor",
    "MemoizedUnary",
    "Noncompliance",
    "PooledHashing",
    "Rappor",
    "RapporBits",
    "Repeated",
    "SampledAttribute",
    "SubsetSelection",
    "UnaryEncoding",
    "cheater_detection",
    "christofides",
    "compose",
    "crosswise",
    "describe_protocols",
    "direct",
    "forced_response",
    "kronecker",
    "kuk",
    "make_protocol",
    "mixture",
    "product",
    "protocol_names",
    "stochastic_lie_detector",
    "triangular",
    "unrelated_question",
    "warner",
]


def __dir__() -> list[str]:
    return [*__all__]
