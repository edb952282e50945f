"""Protocols whose report is a user's whole history: memoized answers reported again and again, and fresh repetitions.

A user's row is exact however many reports the history has: L_x = Σ_b Q1(b | x) Π_t Q2(y_t | b) for a permanent answer b and
reports y_t on it, Π_t Q(y_t | x) for fresh reports. A protocol is one file with a subclass of AbstractHistories.
"""

from ldpbayes.protocols.repeated.d_bit_flip import DBitFlip
from ldpbayes.protocols.repeated.fresh import Repeated, histories_of
from ldpbayes.protocols.repeated.histories import AbstractHistories
from ldpbayes.protocols.repeated.loloha import LOLOHA
from ldpbayes.protocols.repeated.memoized_grr import MemoizedGRR
from ldpbayes.protocols.repeated.memoized_rappor import MemoizedRappor
from ldpbayes.protocols.repeated.memoized_unary import MemoizedUnary

__all__ = [
    "LOLOHA",
    "AbstractHistories",
    "DBitFlip",
    "MemoizedGRR",
    "MemoizedRappor",
    "MemoizedUnary",
    "Repeated",
    "histories_of",
]
