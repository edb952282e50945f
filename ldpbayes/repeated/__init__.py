"""Repeated reports: memoized answers sent again and again, fresh repetitions, and what users have spent.

A user's row is exact however many reports the history has: L_x = Σ_b Q1(b | x) Π_t Q2(y_t | b) for a permanent answer b and
reports y_t on it, Π_t Q(y_t | x) for fresh reports. A protocol is one file with a subclass of AbstractHistories.

From the core it takes protocols, their formats and likelihoods, tallies, and readers of sources. It brings protocols,
histories made of long data, what a result states of users, and a table of its page (``registered.py``).
"""
