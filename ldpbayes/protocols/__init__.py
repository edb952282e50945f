"""Protocols: one file each, found by importing this package; make_protocol builds one from its name."""

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
from ldpbayes.protocols.decoding import AbstractDecoder
from ldpbayes.protocols.fake_data import FakeData
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.laws import AbstractReportLaw
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.noncompliance import Noncompliance
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.rappor_bits import RapporBits
from ldpbayes.protocols.registry import (
    ALIASES,
    COMBINATORS,
    DESIGNS,
    PROTOCOLS,
    Description,
    Parameter,
    describe_protocols,
    make_protocol,
    parse_name,
    protocol_names,
    resolve,
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


PROTOCOLS.update({cls.name: cls for cls in _below(AbstractProtocol) if not inspect.isabstract(cls)})
DESIGNS.update(designs.DESIGNS)
COMBINATORS.update(combine.COMBINATORS)

__all__ = [
    "ALIASES",
    "COMBINATORS",
    "DESIGNS",
    "GRR",
    "LOLOHA",
    "PROTOCOLS",
    "AbstractDecoder",
    "AbstractHistories",
    "AbstractProtocol",
    "AbstractReportLaw",
    "Attributes",
    "BlockDesign",
    "Channel",
    "CohortRR",
    "DBitFlip",
    "Description",
    "FakeData",
    "HadamardResponse",
    "LocalHashing",
    "MemoizedGRR",
    "MemoizedRappor",
    "MemoizedUnary",
    "Noncompliance",
    "Parameter",
    "Rappor",
    "RapporBits",
    "Repeated",
    "SampledAttribute",
    "SubsetSelection",
    "UnaryEncoding",
    "compose",
    "describe_protocols",
    "kronecker",
    "make_protocol",
    "mixture",
    "parse_name",
    "product",
    "protocol_names",
    "resolve",
]
