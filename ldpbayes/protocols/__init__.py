"""Protocols, from randomized response to RAPPOR, and designs of sensitive questions; make_protocol and plan take names."""

from typing import TYPE_CHECKING, Any

from ldpbayes.doors import lazily

if TYPE_CHECKING:  # so that editors and type checkers know the names that load on first use
    # isort: off
    from ldpbayes.protocols import combine as combine, designs as designs
    from ldpbayes.association.attributes import Attributes as Attributes
    from ldpbayes.protocols.base import AbstractProtocol as AbstractProtocol
    from ldpbayes.protocols.block_design import BlockDesign as BlockDesign
    from ldpbayes.protocols.channel import Channel as Channel
    from ldpbayes.protocols.cohort_rr import CohortRR as CohortRR
    from ldpbayes.protocols.combine import compose as compose, kronecker as kronecker, mixture as mixture, product as product
    from ldpbayes.protocols.designs import (
        ListExperiment as ListExperiment,
        cheater_detection as cheater_detection,
        christofides as christofides,
        crosswise as crosswise,
        direct as direct,
        forced_response as forced_response,
        item_count as item_count,
        kuk as kuk,
        stochastic_lie_detector as stochastic_lie_detector,
        triangular as triangular,
        unrelated_question as unrelated_question,
        warner as warner,
    )
    from ldpbayes.association.fake_data import FakeData as FakeData
    from ldpbayes.protocols.grr import GRR as GRR
    from ldpbayes.protocols.hadamard import HadamardResponse as HadamardResponse
    from ldpbayes.protocols.local_hashing import LocalHashing as LocalHashing, PooledHashing as PooledHashing
    from ldpbayes.protocols.noncompliance import Noncompliance as Noncompliance
    from ldpbayes.protocols.rappor import Rappor as Rappor
    from ldpbayes.protocols.rappor_bits import RapporBits as RapporBits
    from ldpbayes.protocols.registry import (
        describe_protocols as describe_protocols,
        make_protocol as make_protocol,
        protocol_names as protocol_names,
    )
    from ldpbayes.repeated.d_bit_flip import DBitFlip as DBitFlip
    from ldpbayes.repeated.fresh import Repeated as Repeated
    from ldpbayes.repeated.histories import AbstractHistories as AbstractHistories
    from ldpbayes.repeated.loloha import LOLOHA as LOLOHA
    from ldpbayes.repeated.memoized_grr import MemoizedGRR as MemoizedGRR
    from ldpbayes.repeated.memoized_rappor import MemoizedRappor as MemoizedRappor
    from ldpbayes.repeated.memoized_unary import MemoizedUnary as MemoizedUnary
    from ldpbayes.protocols.restricted import RestrictedResponse as RestrictedResponse
    from ldpbayes.association.sampled_attribute import SampledAttribute as SampledAttribute
    from ldpbayes.protocols.subset import SubsetSelection as SubsetSelection
    from ldpbayes.protocols.unary import UnaryEncoding as UnaryEncoding
    from ldpbayes.protocols.uncertain import Uncertain as Uncertain
    # isort: on

#: Modules of this package, and the names of each that are public here.
_MODULES = {
    "base": "AbstractProtocol",
    "block_design": "BlockDesign",
    "channel": "Channel",
    "cohort_rr": "CohortRR",
    "combine": "compose kronecker mixture product",
    "designs": "ListExperiment cheater_detection christofides crosswise direct forced_response item_count kuk "
    "stochastic_lie_detector triangular unrelated_question warner",
    "grr": "GRR",
    "hadamard": "HadamardResponse",
    "local_hashing": "LocalHashing PooledHashing",
    "noncompliance": "Noncompliance",
    "rappor": "Rappor",
    "rappor_bits": "RapporBits",
    "registry": "describe_protocols make_protocol protocol_names",
    "restricted": "RestrictedResponse",
    "subset": "SubsetSelection",
    "unary": "UnaryEncoding",
    "uncertain": "Uncertain",
}
_HOMES = {name: f"protocols.{module}" for module, names in _MODULES.items() for name in names.split()}
_HOMES |= {name: f"protocols.{name}" for name in ("combine", "designs")}
#: Those of rooms: of several attributes, and of users who report again and again.
_OF_ROOMS = {
    "AbstractHistories": "repeated.histories",
    "Attributes": "association.attributes",
    "DBitFlip": "repeated.d_bit_flip",
    "FakeData": "association.fake_data",
    "LOLOHA": "repeated.loloha",
    "MemoizedGRR": "repeated.memoized_grr",
    "MemoizedRappor": "repeated.memoized_rappor",
    "MemoizedUnary": "repeated.memoized_unary",
    "Repeated": "repeated.fresh",
    "SampledAttribute": "association.sampled_attribute",
}
_HOMES |= _OF_ROOMS
#: What all files of this package define, by name.
_REGISTERED = ("PROTOCOLS", "DESIGNS", "COMBINATORS")

__all__ = sorted([*(name for names in _MODULES.values() for name in names.split()), *_OF_ROOMS])

_load, __dir__ = lazily(__name__, _HOMES | dict.fromkeys(_REGISTERED, "protocols.registry"))


def __getattr__(name: str) -> Any:
    if name in _REGISTERED:
        _load("protocol_names")()
    return _load(name)
