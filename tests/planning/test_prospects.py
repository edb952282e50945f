"""What a plan says of groups, crafted reports and respondents who ignore the device, against simulation and algebra."""

import json
import math
import re

import numpy as np
import pytest
from commands import run
from scipy.stats import norm
from tabulated import each_row

from ldpbayes import GRR, planning
from ldpbayes.errors import ArgumentError
from ldpbayes.planning import prospects
from ldpbayes.protocols import Channel, make_protocol
from ldpbayes.protocols.designs import crosswise
from ldpbayes.protocols.registry import ALIASES
from ldpbayes.theory import bounds


def test_power_agrees_with_simulation():
    """The share of simulated pairs of groups whose difference exceeds 1.96 of its standard deviations."""
    rng, grr, n, delta, a = np.random.default_rng(3), GRR(5, 1.0), 20_000, 0.05, 5
    p = np.full((2, a), 1 / a)
    p[0, 0], p[1, 0] = 1 / a + delta / 2, 1 / a - delta / 2
    p[:, 1:] = (1 - p[:, :1]) / (a - 1)
    reports = np.stack([rng.multinomial(n // 2, grr.channel() @ one, size=4000) for one in p])
    g, h = grr.hit_rates
    shares = (reports[..., 0] / (n / 2) - h) / (g - h)
    variance = reports[..., 0] / (n / 2) * (1 - reports[..., 0] / (n / 2)) / (n / 2) / (g - h) ** 2
    found = (np.abs(shares[0] - shares[1]) > norm.ppf(0.975) * np.sqrt(variance.sum(axis=0))).mean()
    stated = prospects.power(grr, n, delta)
    assert 0.5 < stated < 0.9 and found == pytest.approx(stated, abs=4 * math.sqrt(0.25 / 4000))


@pytest.mark.parametrize("groups", [2, 5])
def test_planning_for_power_inverts_itself(groups):
    error = prospects.half_width_for(0.04, 0.9, groups=groups)
    for one in planning.plan(n_categories=8, epsilon=2.0, error=error, kind="half_width"):
        protocol = planning.named_makers([one.protocol])[one.protocol](8, 2.0)
        assert prospects.power(protocol, one.n, 0.04, groups=groups) == pytest.approx(0.9, rel=1e-9)
        width = planning.expected_error(protocol, one.n / groups, kind="half_width")
        assert prospects.least_difference(width, probability=0.9) == pytest.approx(0.04, rel=1e-9)


def test_crafted_reports_move_one_share():
    """At ε = 1 and 20 categories 5 % crafted GRR reports move a share from .01 to .61, as simulated reports show."""
    grr, n = GRR(20, 1.0), 10_000
    stated = prospects.poisoned_share(grr, 0.05)
    assert stated == pytest.approx(0.612, abs=5e-4)
    p = np.append(0.01, np.full(19, 0.99 / 19))
    reports = n * 0.95 * grr.channel() @ p
    reports[0] += n * 0.05
    assert (np.linalg.inv(grr.channel()) @ (reports / n))[0] == pytest.approx(stated)
    as_channel = Channel(grr.channel())
    assert prospects.poisoned_share(as_channel, 0.05) == pytest.approx(stated, rel=1e-9)
    assert prospects.poisoned_share(grr, 0.0, 0.3) == 0.3 and prospects.poisoned_share(grr, 0.5) == 1.0


def test_extended_crosswise_tells_who_ignores_it():
    """With one answer from those who ignore it, γ = 1 − s₁ − s₂, whose variance is that of two shares."""
    n, p, gamma, law = 3000, 0.2, 0.1, {"no-sayer": "different"}
    shares = (1 - gamma) * np.array([0.5, 0.5])
    sd = math.sqrt((shares * (1 - shares) / (n / 2)).sum())
    found = prospects.noncompliance([crosswise(p), crosswise(1 - p)], n, law, gamma=gamma)
    assert found.identified and found.sd == pytest.approx(sd, rel=0.01)
    assert not prospects.noncompliance([crosswise(p)], n, law).identified


def test_the_sd_of_gamma_falls_with_the_root_of_the_reports_where_they_cannot_be_listed():
    """No more than 20,000 reports are simulated to stand for the channel; the sd is that of all."""
    oue = make_protocol("oue", list(map(str, range(17))), {"epsilon": 1.0})
    few, many = (prospects.noncompliance([oue], n, {"silent": "no bits"}) for n in (1e5, 1e7))
    assert few.sd == pytest.approx(10 * many.sd) and 5e-4 < few.sd < 2e-3
    assert "these 10,000,000 reports" in many.sentence


def test_widest_interval_has_a_floor_that_subset_selection_attains():
    for a, epsilon in ((2, 0.5), (16, 1.0), (50, 2.0)):
        one = planning.plan(n_categories=a, epsilon=epsilon, n=5000, kind="half_width", protocols="subset")[0]
        least = norm.ppf(0.975) * math.sqrt(bounds.exact_bound(a, epsilon).value / a / 5000)
        assert one.bound == pytest.approx(least, rel=1e-9) and one.error == pytest.approx(least, rel=1e-6)


#: Parameters beside ε of the aliases that need some, and designs whose parameters fix ε.
NEEDED = {
    "extended_crosswise": {"p": 0.2},
    "spl": {"factors": [{"protocol": "grr", "n_categories": 2, "epsilon": 1.0}, {"protocol": "warner", "p": 0.7}]},
}


def test_protocols_without_such_a_report_are_ranked_all_the_same(capsys):
    """Somebody who always says 0 has no report in local hashing, and GRR at one level never identifies them."""
    asked = "plan", "--n-categories", 5, "--epsilon", 1, "--users", 1e4, "--set", "noncompliance.no-sayer=0"
    status, out, _ = run(capsys, *asked, "--protocol", "grr", "--protocol", "oue", "--protocol", "olh")
    assert status == 0 and "of olh" in out and "through grr" in out
    status, _, err = run(capsys, *asked, "--protocol", "olh")
    assert status == 2 and "law must be" in err


@each_row("alias", sorted(ALIASES))
def test_every_alias_is_planned_as_what_it_stands_for(capsys, alias):
    settings = NEEDED.get(alias, {"epsilon": 1.0})
    size = 4 if alias == "spl" else 2
    texts = {key: re.sub(r"'(\w+)': ", r"\1 = ", str(value)).replace("'", '"') for key, value in settings.items()}
    given = [word for key in settings if key != "epsilon" for word in ("-p", f"{key}={texts[key]}")]
    given += ["--epsilon", 1] if "epsilon" in settings else []
    status, out, err = run(capsys, "plan", "--n-categories", size, "--users", 900, "--protocol", alias, *given, "--json")
    assert status == 0, err
    protocol = make_protocol(alias, [str(x) for x in range(size)], settings)
    assert json.loads(out)["plans"][0]["error"] == pytest.approx(planning.expected_error(protocol, 900), rel=1e-12)


def test_the_command_says_what_was_asked(capsys):
    status, out, _ = run(capsys, "plan", "--n-categories", 5, "--epsilon", 1, "--delta", 0.05, "--power", 0.8, "--json")
    found = json.loads(out)["plans"][0]
    assert status == 0 and found["power"] == pytest.approx(0.8, abs=1e-6)
    assert found["least_difference"] == pytest.approx(0.05)
    again = ["--n-categories", 5, "--epsilon", 1, "--users", found["n"], "--n-groups", 2, "--delta", 0.05]
    _, out, _ = run(capsys, "plan", *again)
    assert "power to" in out and "0.800" in out and "probability 0.8" in out
    _, out, _ = run(capsys, "plan", "--n-categories", 20, "--epsilon", 1, "--users", 10_000, "--fake-share", 0.05)
    assert "0.612" in out and "0.17 under subset, and 0.61" in out
    survey = ["--protocol", "extended_crosswise", "-p", "p=0.2", "--users", 3000]
    _, out, _ = run(capsys, "plan", *survey, "--set", "noncompliance.no-sayer=different")
    assert "0.0182" in out
    single = ["--protocol", "crosswise", "-p", "p=0.2", "--users", 3000, "--set", "noncompliance.no-sayer=different"]
    _, out, _ = run(capsys, "plan", *single, "--truth", "0.9,0.1")
    assert "ignore the" in out
    _, out, _ = run(capsys, "plan", *survey, "--target", "frequency", "--n-groups", 3, "--json")
    found = json.loads(out)["plans"][0]
    assert 0 < found["group_half_width"] < found["least_difference"]


BASE = ["--n-categories", 4, "--epsilon", 1]


@each_row(
    "arguments, words",
    [
        ([*BASE, "--power", 0.8], "power needs --delta"),
        ([*BASE, "--power", 0.8, "--delta", 0.1, "--error", 0.1], "power stands for --error"),
        ([*BASE, "--power", 1.2, "--delta", 0.1], "power must be"),
        ([*BASE, "--power", 0.01, "--delta", 0.1], "above the level"),
        ([*BASE, "--users", 100, "--n-groups", 2, "--delta", 0], "delta must be"),
        ([*BASE, "--users", 100, "--fake-share", 1], "--fake-share must be"),
        ([*BASE, "--users", 100, "--set", "noncompliance.no"], "must be KEY=VALUE"),
        ([*BASE, "--users", 100, "--set", "noncompliance.liar=never"], "law must be"),
        (
            [*BASE, "--users", 100, "--set", "noncompliance.liar=0", "--noncompliance-share=2"],
            "--noncompliance-share must be",
        ),
        ([*BASE, "--users", 100, "--noncompliance-share", "0.2"], "--noncompliance-share goes with --set noncompliance"),
        (
            [*BASE, "--users", 9, "--set=deniers.of=0", "--set=deniers.say=1", "--deniers-share=2"],
            "ldpbayes: --deniers-share must",
        ),
        ([*BASE, "--users", 100, "--truth", "0.5,0.6"], "p must"),
        ([*BASE, "--users", 100, "--truth", "0.5,x"], "--truth must be shares"),
        (["--protocol", "warner", "--protocol", "grr", "--users", 100], "designs that fix epsilon"),
    ],
)
def test_bad_values_are_refused_in_one_sentence(capsys, arguments, words):
    status, out, err = run(capsys, "plan", *arguments)
    assert status == 2 and out == "" and words in " ".join(err.split()) and len(err) < 400


def test_power_takes_checked_arguments():
    with pytest.raises(ArgumentError, match="groups must"):
        prospects.power(GRR(3, 1.0), 100, 0.1, groups=1)


def test_how_many_to_ask_directly(capsys):
    """Against the sds of simulated estimates, the algebra of the device alone, and a plan's page."""
    p, delta, n = 0.4, 0.3, 4000
    found = prospects.asked_directly(crosswise(0.25), n, delta=delta, p=[1 - p, p], direct=[0.0, 0.5, 1.0])
    rng, half = np.random.default_rng(4), n // 2
    same, yes = rng.binomial(half, 0.75 - 0.5 * p, 20_000) / half, rng.binomial(half, p * (1 - delta), 20_000) / half
    share = (0.75 - same) / 0.5
    np.testing.assert_allclose(found[1], [share.std(), (1 - yes / share).std()], rtol=0.05)
    alone = math.sqrt((0.75 - 0.5 * p) * (0.25 + 0.5 * p) / n) / 0.5
    assert found[0, 0] == pytest.approx(alone) and np.isnan([found[0, 1], found[2, 0]]).all()
    stated = ["--set=deniers.of=yes", "--set=deniers.say=no"]
    status, out, _ = run(capsys, "plan", "--protocol=crosswise", "-p", "p=0.25", "--users=800", *stated)
    assert status == 0 and "users asked" in " ".join(out.split())
    assert run(capsys, "plan", "--protocol=crosswise", "-p", "p=0.25", "--users=800", stated[0])[0] == 2
    for wrong in ({"of": 1, "say": 1}, {"delta": 0.0}, {"direct": [2.0]}, {"of": 7}):
        with pytest.raises(ArgumentError):
            prospects.asked_directly(crosswise(0.25), n, **wrong)
