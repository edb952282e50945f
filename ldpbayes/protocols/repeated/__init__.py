"""Protocols whose report is a user's whole history: memoized answers reported again and again, and fresh repetitions.

A user's row is exact however many reports the history has: L_x = Σ_b Q1(b | x) Π_t Q2(y_t | b) for a permanent answer b and
reports y_t on it, Π_t Q(y_t | x) for fresh reports. A protocol is one file with a subclass of AbstractHistories.
"""
