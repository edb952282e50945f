"""The cross-check must flag a survey read with the wrong design, and leave a sound one alone."""

import numpy as np
import pytest

from ldpbayes import Collection, Tally, cli, read_collection
from ldpbayes.errors import ArgumentError
from ldpbayes.fitness.crosschecking import crosscheck, predictive_check
from ldpbayes.fitting import fit
from ldpbayes.protocols import GRR, designs


@pytest.fixture(scope="module")
def root(request):
    return request.config.rootpath


def test_nigeria_is_not_flagged(root):
    report = crosscheck(read_collection(root / "data/rr_nigeria.toml"), prior="flat", random_seed=1)
    assert not report.flagged, report.conclusion
    assert (report.reference, report.sampler) == ("exact", "nuts")
    assert np.abs(report.difference_mcse).max() <= 4
    assert set(report.estimates) == {"mle", "oracle"}
    assert "Nothing to flag" in report.conclusion


def test_minarets_read_as_warner_are_flagged(root):
    report = crosscheck(read_collection(root / "data/rr_minarets_as_warner.toml"), random_seed=1)
    assert report.flagged
    assert report.channels[0].p_value < 0.002
    assert "do not look like this channel" in report.conclusion
    assert report.fitness.flagged and "The reports do not fit the design" in report.conclusion


def test_command_exits_with_one_when_flagged(root, capsys, monkeypatch):
    monkeypatch.chdir(root)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["crosscheck", "data/rr_minarets_as_warner.toml", "--seed", "1"])
    out = " ".join(capsys.readouterr().out.split())
    assert stopped.value.code == 1 and "does not fit" in out


def test_predictive_check_is_calibrated_enough():
    """Reports that do come from the channel are rarely flagged: the p-value is conservative."""
    rng = np.random.default_rng(3)
    protocol = GRR(5, epsilon=1.0)
    flagged = 0
    for seed in range(40):
        reports, counts = protocol.simulate(rng.multinomial(400, rng.dirichlet(np.ones(5))), rng)
        collection = Collection(list("abcde"), [Tally(protocol, reports, counts)])
        tree = fit(collection, random_seed=seed, estimates=False, draws=100)
        flagged += predictive_check(collection, tree, draws=200, random_seed=seed)[0].flagged
    assert flagged <= 2


def test_reports_outside_the_channels_range_are_flagged():
    """Forced response forces a sixth of each answer: 2 % of yes cannot come from it."""
    collection = Collection(["no", "yes"], [Tally(designs.forced_response(2 / 3, [1, 1]), [0, 1], [980, 20])])
    tree = fit(collection, random_seed=1, estimates=False)
    assert predictive_check(collection, tree, random_seed=1)[0].flagged


def test_check_command(root, capsys, monkeypatch):
    """Exit status 0 where the reports fit, 1 where they are flagged, 2 for bad input."""
    monkeypatch.chdir(root)
    codes = []
    for file, words in (
        ("data/rr_nigeria.toml", "No test of fit is possible"),
        ("data/rr_minarets_as_warner.toml", "The reports do not fit the design"),
        ("data/nowhere.toml", ""),
    ):
        with pytest.raises(SystemExit) as stopped:
            cli.main(["check", file])
        codes.append(stopped.value.code)
        assert words in " ".join(capsys.readouterr().out.split())
    assert codes == [0, 1, 2]


def test_mend_13_a_generator_seeds_the_cross_check(root):
    collection = read_collection(root / "data/rr_nigeria.toml")
    tree = fit(collection, random_seed=1, estimates=False)
    assert predictive_check(collection, tree, random_seed=np.random.default_rng(1))[0].p_value > 0.01
    with pytest.raises(ArgumentError, match="random_seed"):
        crosscheck(collection, random_seed=-1)
