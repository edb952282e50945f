"""check() of cells, the test of equal distributions, information criteria, and what the command prints of them."""

import json

import numpy as np
import pytest
import xarray as xr
from fitcases import collection_of, zipf

from ldpbayes import GRR, Cells, Collection, Tally, cli, fit
from ldpbayes.errors import InfeasibleError
from ldpbayes.fitness import check, equality_test, information_criteria
from ldpbayes.protocols import designs
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.result.facts import facts_of


def cells_of(protocol, shares, n, rng):
    """Return cells with a distribution each."""
    found = {}
    for i, p in enumerate(shares):
        tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng))
        found[f"cell {i}"] = Collection([f"c{x}" for x in range(protocol.n_categories)], [tally])
    return Cells(found)


def test_cells_are_checked_one_by_one_and_together():
    rng, protocol = np.random.default_rng(1), HadamardResponse(5, 1.0)
    cells = cells_of(protocol, [zipf(5)] * 6, 800, rng)
    found = check(cells)
    assert not found.flagged and len(found.cells) == 6 and found.verdict.startswith("The reports of all 6 cells fit")
    own = check(cells["cell 2"])
    assert found.p_values[2] == own.p_value
    broken = dict(cells)
    reports = np.concatenate([cells["cell 3"].tallies[0].reports, np.zeros(200, dtype=int)])
    counts = np.append(cells["cell 3"].tallies[0].counts, np.ones(200, dtype=int))
    broken[("cell 3",)] = collection_of(Tally(protocol, reports, counts))
    worse = check(Cells(broken))
    assert worse.flagged and "design: cell 3" in worse.verdict
    (table,) = worse.page().tables  # the p-value by which the verdict names a cell is that of the table
    assert f"{min(row[-1] for row in table.rows):.3g} of the cell that fits least" in worse.verdict


def test_equal_distributions_are_left_alone_at_the_level():
    """The likelihood ratio of four cells with one interior distribution is χ²₉: 300 p-values, and cells that differ."""
    rng, protocol = np.random.default_rng(2), GRR(4, 2.0)
    p = np.array([0.4, 0.3, 0.2, 0.1])
    p_values = np.array([equality_test(cells_of(protocol, [p] * 4, 1000, rng)).p_value for _ in range(300)])
    assert 4 <= (p_values < 0.05).sum() <= 30 and abs((p_values < 0.5).mean() - 0.5) < 0.12
    other = equality_test(cells_of(protocol, [p, p, p, p[::-1]], 1000, rng))
    assert other.df == 9 and other.p_value < 1e-6
    with pytest.raises(InfeasibleError, match=r"nothing.*compared"):
        equality_test(cells_of(protocol, [p], 100, rng))


def test_information_criteria():
    """Direct answers: k = 2 and the multinomial log-likelihood; a fit has the same numbers."""
    counts = np.array([50, 30, 20])
    collection = collection_of(Tally(designs.direct(3), np.arange(3), counts))
    found = information_criteria(collection)
    log_likelihood = float(counts @ np.log(counts / 100))
    bic = 2 * np.log(100) - 2 * log_likelihood
    assert found == pytest.approx({"aic": 4 - 2 * log_likelihood, "bic": bic, "parameters": 2})
    tree = fit(collection, random_seed=1)
    assert facts_of(tree)["aic"] == pytest.approx(found["aic"]) and facts_of(tree)["bic"] == pytest.approx(bic)
    detector = collection_of(Tally(designs.stochastic_lie_detector(0.3), [0, 1], [40, 60]))
    assert information_criteria(detector)["parameters"] == 1


def printed(capsys, *words):
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(word) for word in words])
    return stopped.value.code, " ".join(capsys.readouterr().out.split())


def test_the_command_checks_groups_and_counts_fakes(tmp_path, capsys):
    (tmp_path / "s.csv").write_text("report,region\n" + "yes,a\nno,a\nno,a\nyes,b\nno,b\nno,b\n" * 20)
    channel = 'name = "all"\nprotocol = "warner"\nfile = "s.csv"\nreport = "report"\nparameters = { p = 0.7 }\n'
    text = 'id = "s"\ncategories = ["no", "yes"]\n[[channels]]\n' + channel
    (tmp_path / "s.toml").write_text(text)
    code, out = printed(capsys, "check", tmp_path / "s.toml", "--by", "region")
    assert code == 0 and "No test" in out and "contradict one" in out
    code, out = printed(capsys, "check", tmp_path / "s.toml", "--fakes")
    assert code == 0 and "Fabricated reports" in out
    code, out = printed(capsys, "check", tmp_path / "s.toml", "--by", "region", "--json")
    assert set(json.loads(out)["cells"]) == {"a", "b"}
    code, out = printed(capsys, "check", tmp_path / "s.toml", "--by", "region", "--fakes")
    assert code == 2


def test_a_cross_check_of_cells_joins_those_of_each():
    """Findings of the cells come together; the posteriors themselves are those of crosscheck of one collection."""
    from ldpbayes.pages import show
    from ldpbayes.robust import crosschecking

    p = np.array([0.6, 0.4])

    def found(mcse, p_value):
        one = {"mean": p, "sd": p / 10, "difference_sd": 0 * p, "difference_mcse": np.full(2, mcse)}
        one |= {"end_sd": 0 * p, "end_errors": 0 * p}
        data = {name: ("category", values) for name, values in one.items()} | {"verdict": ("category", ["agrees"] * 2)}
        data |= {"predictive_p": ("channel", [p_value]), "reference": "exact", "sampler": "nuts", "sampler_converged": 1}
        data |= {
            "convex_astray": 0,
            "convex_gap": 0.0,
            "convex_excess": 0.0,
            "convex_verdict": "the same",
            "enumeration_apart": 0,
        }
        data["away"] = (("estimator", "category"), np.zeros((1, 2)))
        return xr.Dataset(data, {"category": ["no", "yes"], "estimator": ["mle"], "channel": ["the collection"]})

    def together(*parts):
        fits = check(cells_of(designs.warner(0.7), [p] * 2, 100, np.random.default_rng(0)))
        whole = crosschecking.joined(parts, ("a", "b")).assign(fitness_p=("cell", fits.p_values))
        return crosschecking.concluded(whole, fits, 1)

    quiet = together(found(0.5, 0.3), found(1.0, 0.008))
    assert not quiet.flagged and "to flag" in quiet.sentence
    loud = together(found(9.0, 0.3), found(1.0, 0.001))
    assert loud.flagged and "4 Monte Carlo" in loud.sentence
    assert "fails in b" in loud.sentence
    page = show(loud)
    assert [row[0] for row in page.tables[0].rows] == ["a", "b"] and page.facts["flagged"]


@pytest.mark.calibrate
def test_a_cross_check_of_two_cells():
    from ldpbayes import crosscheck

    rng = np.random.default_rng(5)
    found = crosscheck(cells_of(designs.warner(0.7), [np.array([0.7, 0.3])] * 2, 500, rng), random_seed=1)
    assert not found.flagged and found.sizes["cell"] == 2
