"""Protocols and survey designs: make_protocol builds each from its name. A protocol is one file; files load on first use."""

from typing import TYPE_CHECKING, Any

from ldpbayes.doors import lazily

if TYPE_CHECKING:  # so that editors complete the names that load on first use
    from ldpbayes.protocols import combine, designs
    from ldpbayes.protocols.attributes import Attributes
    from ldpbayes.protocols.base import AbstractProtocol
    from ldpbayes.protocols.block_design import BlockDesign
    from ldpbayes.protocols.channel import Channel
    from ldpbayes.protocols.cohort_rr import CohortRR
    from ldpbayes.protocols.combine import compose, kronecker, mixture, product
    from ldpbayes.protocols.designs import (
        ListExperiment,
        cheater_detection,
        christofides,
        crosswise,
        direct,
        forced_response,
        item_count,
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
    from ldpbayes.protocols.registry import describe_protocols, make_protocol, protocol_names
    from ldpbayes.protocols.repeated.d_bit_flip import DBitFlip
    from ldpbayes.protocols.repeated.fresh import Repeated
    from ldpbayes.protocols.repeated.histories import AbstractHistories
    from ldpbayes.protocols.repeated.loloha import LOLOHA
    from ldpbayes.protocols.repeated.memoized_grr import MemoizedGRR
    from ldpbayes.protocols.repeated.memoized_rappor import MemoizedRappor
    from ldpbayes.protocols.repeated.memoized_unary import MemoizedUnary
    from ldpbayes.protocols.restricted import RestrictedResponse
    from ldpbayes.protocols.sampled_attribute import SampledAttribute
    from ldpbayes.protocols.subset import SubsetSelection
    from ldpbayes.protocols.unary import UnaryEncoding

#: Modules of this package, and the names of each that are public here.
_MODULES = {
    "attributes": "Attributes",
    "base": "AbstractProtocol",
    "block_design": "BlockDesign",
    "channel": "Channel",
    "cohort_rr": "CohortRR",
    "combine": "compose kronecker mixture product",
    "designs": "ListExperiment cheater_detection christofides crosswise direct forced_response item_count kuk "
    "stochastic_lie_detector triangular unrelated_question warner",
    "fake_data": "FakeData",
    "grr": "GRR",
    "hadamard": "HadamardResponse",
    "local_hashing": "LocalHashing PooledHashing",
    "noncompliance": "Noncompliance",
    "rappor": "Rappor",
    "rappor_bits": "RapporBits",
    "registry": "describe_protocols make_protocol protocol_names",
    "repeated.d_bit_flip": "DBitFlip",
    "repeated.fresh": "Repeated",
    "repeated.histories": "AbstractHistories",
    "repeated.loloha": "LOLOHA",
    "repeated.memoized_grr": "MemoizedGRR",
    "repeated.memoized_rappor": "MemoizedRappor",
    "repeated.memoized_unary": "MemoizedUnary",
    "restricted": "RestrictedResponse",
    "sampled_attribute": "SampledAttribute",
    "subset": "SubsetSelection",
    "unary": "UnaryEncoding",
}
_HOMES = {name: f"protocols.{module}" for module, names in _MODULES.items() for name in names.split()}
_HOMES |= {name: f"protocols.{name}" for name in ("combine", "designs")}
#: What all files of this package define, by name.
_REGISTERED = ("PROTOCOLS", "DESIGNS", "COMBINATORS")

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
    "ListExperiment",
    "LocalHashing",
    "MemoizedGRR",
    "MemoizedRappor",
    "MemoizedUnary",
    "Noncompliance",
    "PooledHashing",
    "Rappor",
    "RapporBits",
    "Repeated",
    "RestrictedResponse",
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
    "item_count",
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

_load, __dir__ = lazily(__name__, _HOMES | dict.fromkeys(_REGISTERED, "protocols.registry"))


def __getattr__(name: str) -> Any:
    if name in _REGISTERED:
        _load("protocol_names")()
    return _load(name)
