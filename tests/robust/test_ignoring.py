"""The test of full compliance, its Bayes factor and the sensitivity curve."""

import numpy as np
import pytest

from ldpbayes import GRR, Collection, Tally, fit, show
from ldpbayes.collections.noncompliance import compliers_only
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.estimators.mle import maximize
from ldpbayes.fitness.nested import compliance_test
from ldpbayes.protocols import UnaryEncoding, designs
from ldpbayes.result.facts import facts_of
from ldpbayes.robust.ignoring import sensitivity


def crosswise(gamma, n, rng, share=0.2):
    """Return two crosswise channels with people who always say "same"."""
    tallies = []
    for i, p in enumerate((0.2, 0.8)):
        q = designs.crosswise(p)
        law = (1 - gamma) * q.matrix @ [1 - share, share] + gamma * np.array([0, 1])
        tallies.append(Tally(q, [0, 1], rng.multinomial(n // 2, law), f"c{i}"))
    return Collection(["no", "yes"], tallies).with_noncompliers({"same-sayer": 1})


def sizes(replications):
    """Return (how often full compliance is rejected at 5 %, the share of statistics at zero) where it is true."""
    rng = np.random.default_rng(4)
    found = [compliance_test(crosswise(0.0, 2000, rng)) for _ in range(replications)]
    return sum(one.p_value < 0.05 for one in found), np.mean([one.statistic < 1e-4 for one in found])


def test_size_under_full_compliance():
    rejected, none = sizes(60)
    assert rejected <= 9 and 0.3 <= none <= 0.7  # 3 are expected, and half of the mass at zero


@pytest.mark.calibrate
def test_size_over_400_samples():
    rejected, none = sizes(400)
    assert 8 <= rejected <= 34 and 0.4 <= none <= 0.6  # 20 are expected; each bound is three standard deviations away


def test_where_nobody_seems_to_deny_the_p_value_is_one():
    """Both maxima are one, and differed by 10⁻¹³: half of a χ² law gave p = .5 then."""
    device, asked = (
        Tally(designs.crosswise(0.25), [0, 1], [102, 98], "device"),
        Tally(designs.direct(), [0, 1], [84, 116], "direct"),
    )
    found = compliance_test(Collection(["no", "yes"], [device, asked]).with_deniers(of="yes", say="no", channel="direct"))
    assert found.gamma == 0 and found.statistic == 0 and found.p_value == 1


def test_power_and_bayes_factor():
    collection = crosswise(0.1, 20_000, np.random.default_rng(5))
    found = compliance_test(collection)
    assert found.p_value < 1e-4 and found.gamma == pytest.approx(0.1, abs=0.03)
    assert facts_of(fit(collection, random_seed=0))["log_bayes_factor_noncompliance"] > 3
    assert compliers_only(collection).categories == ("no", "yes")


def test_sensitivity_of_warner_is_its_closed_form():
    q = GRR(2, 1.5)
    counts = np.array([700, 300])
    collection = Collection(["no", "yes"], Tally(q, [0, 1], counts)).with_noncompliers({"no-sayer": "no"})
    curve = sensitivity(collection, ["yes"], threshold=0.3)
    high, low = q.hit_rates
    expected = (0.3 / (1 - curve.gamma) - low) / (high - low)
    np.testing.assert_allclose(curve.answer, np.clip(expected, 0, 1), atol=1e-5)
    assert curve.turning == pytest.approx(1 - 0.3 / (low + (high - low) * 0.3), abs=1e-4)
    assert curve.gamma[0] == pytest.approx(collection.noncompliance().low)
    assert np.isnan(sensitivity(collection, "yes", threshold=0.01, points=5).turning)


def test_conclusions_in_words_their_page_and_their_picture(tmp_path):
    q = GRR(3, 1.5)
    tally = Tally(q, [0, 1, 2], [500, 300, 200])
    collection = Collection(["no", "some", "often"], tally).with_noncompliers({"no-sayer": "no"})
    curve = sensitivity(collection, "some + often > 60 %", points=9)
    assert curve.threshold == 0.6 and curve.question == "some + often > 0.6" and curve.allowed
    assert "γ = 0" in curve.sentence and "turns at γ = " in curve.sentence
    page = show(curve)
    told = " ".join([page.summary, *(note.text for note in page.notes)]).lower()
    assert len(page.tables[0].rows) == 9
    assert all(clause.strip(" .") in told for clause in curve.sentence.lower().split(";")), told
    assert "maximum likelihood" in page.summary
    (axes,) = page.figures[0].draw().axes
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), curve.gamma)
    assert (curve.error[:-1] > 0).all()
    assert "turns nowhere" in sensitivity(collection, "some > 0.001", points=5).sentence
    for wrong in ("nobody > 0.2", "no + no > 0.2", "no > 2", "no > 300 %"):
        with pytest.raises(ArgumentError):
            sensitivity(collection, wrong)


def test_curves_of_reports_that_cannot_be_listed():
    """Unary encodings identify γ: the curve passes through the joint estimate."""
    protocol, rng = UnaryEncoding.optimized(15, 2.0), np.random.default_rng(2)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(4000, np.arange(1, 16) / 120), rng))
    collection = Collection([f"c{i}" for i in range(15)], tally).with_noncompliers({"silent": "no bits"})
    curve = sensitivity(collection, "c14", points=3)
    p = maximize(collection.rows).p
    assert not curve.allowed and np.interp(p[-1], curve.gamma, curve.answer) == pytest.approx(p[14] / (1 - p[-1]), abs=2e-3)


def test_what_cannot_be_asked_is_refused():
    plain = Collection(["no", "yes"], Tally(GRR(2, 1.5), [0, 1], [70, 30]))
    with pytest.raises(ArgumentError, match="with_noncompliers"):
        compliance_test(plain)
    wrapped = plain.with_noncompliers({"no-sayer": "no"})
    with pytest.raises(InfeasibleError, match=r"identifies.*share"):
        compliance_test(wrapped)
    with pytest.raises(ArgumentError, match="categories must"):
        sensitivity(wrapped, ["no-sayer"])
