"""Kind: a refused summary says what works. RAPPOR's filters overlap, so that a diagonal misses their curvature; the advice
is followed here, as the sentence has it. Siblings: one hash and two, with and without draws, the command line's words."""

import re

import numpy as np
import pytest

import ldpbayes as lb


@pytest.mark.parametrize("hashes", [1, 2])
@pytest.mark.parametrize("fitted", [False, pytest.param(True, marks=pytest.mark.calibrate)])
def test_the_advice_is_followed(hashes, fitted):
    labels, rng = tuple(map(str, range(8))), np.random.default_rng(1)
    protocol = lb.protocols.Rappor.one_time(8, 1.0, 20, 4, hashes, candidates=labels)
    table = lb.write(protocol.privatize(rng.choice(8, 2000, p=rng.dirichlet(np.ones(8))), rng), None, protocol)
    for draws in (100, 0):
        with pytest.raises(lb.errors.LDPBayesError, match="stand for") as refused:
            lb.fit(lb.scan(table), "jeffreys", draws=draws)
    keep = int(
        re.search(r"Scan again with keep=(\d+), which keeps the reports whole, and fit with draws", str(refused.value))[1]
    )
    kept = lb.scan(table, keep=keep)
    assert keep == 2001 and kept.keeps_reports
    assert not fitted or lb.fit(kept, "jeffreys", draws=100, random_seed=1).attrs["n_reports"] == 2000
