"""A device that is random in a PyMC model: a channel of tensors, two rates of tensors, and laws of its probabilities."""

import numpy as np
import pytest
from scipy.stats import beta, binom

import ldpbayes as lb
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.protocols import Channel, LocalHashing, Rappor, UnaryEncoding, Uncertain, warner
from ldpbayes.pymc import attach, build_model, observe

P = np.array([0.5, 0.3, 0.2])


def rates_of(protocol):
    if protocol.name == "rappor":
        return protocol.rates
    on = protocol.hit_rates[0]
    return (on, (1 - on) / (protocol.buckets - 1)) if protocol.name == "local_hashing" else protocol.hit_rates


PROTOCOLS = {
    "grr": lb.GRR(3, 1.0),
    "unary": UnaryEncoding.optimized(3, 1.0),
    "rappor": Rappor.one_time(3, 2.0, 8, 2, 2, candidates=("a", "b", "c")),
    "hashing": LocalHashing(3, 1.0, buckets=4),
}


def collection(protocol, seed, n=60):
    rng = np.random.default_rng(seed)
    return lb.Collection("abc", [lb.Tally(protocol, protocol.privatize(rng.choice(3, n, p=P), rng))])


def log_probability(p, data, channel=None):
    import pymc as pm

    with pm.Model() as model:
        (variable,) = observe("reports", p, data, channel=channel)
    return model.compile_logp(vars=[variable], sum=True, mode="FAST_COMPILE")({}), model, variable


@pytest.mark.calibrated("False-rappor", "False-hashing", "False-unary")
@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
@pytest.mark.parametrize("cells", [False, True])
def test_a_random_device_at_its_known_rates_is_the_known_device(protocol, cells):
    data, p = collection(protocol, 1), P
    if cells:
        data, p = lb.Cells({"x": data, "y": collection(protocol, 2, 40)}), np.stack([P, P[::-1]])
    channel = protocol.channel() if protocol.name == "grr" else rates_of(protocol)
    logs = [[log_probability(at, data, known)[0] for at in (p, p[..., ::-1])] for known in (None, channel)]
    assert np.diff(logs[1]) == pytest.approx(np.diff(logs[0]), rel=1e-9)  # a multinomial coefficient may be in one alone


@pytest.mark.filterwarnings("ignore:Numba will use object mode")
def test_predictions_follow_the_rates():
    import pymc as pm

    protocol = UnaryEncoding.optimized(3, 1.0)
    _, _, variable = log_probability(P, collection(protocol, 1, 4000), (0.9, 0.1))
    drawn = pm.draw(variable, draws=20, random_seed=1).mean(axis=0)
    np.testing.assert_allclose(drawn / 4000, 0.9 * P + 0.1 * (1 - P), atol=0.01)


@pytest.mark.parametrize("channel", [np.array([[0.9, 0.1, 0.0], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]]), np.eye(3) * 2 - 1 / 3])
def test_a_constant_that_is_no_channel_is_refused(channel):
    with pytest.raises(ArgumentError, match="channel"):
        log_probability(P, collection(lb.GRR(3, 1.0), 1), channel)
    with pytest.raises(ArgumentError, match="channel"):
        log_probability(P, collection(UnaryEncoding.optimized(3, 1.0), 1, 4), (1.2, 0.1))


@pytest.mark.parametrize(
    ("channel", "error"),
    [(np.ones((2, 3)) / 2, ArgumentError), ({"other": np.eye(3)}, ArgumentError), ((0.5, 0.2), InfeasibleError)],
)
def test_what_is_refused(channel, error):
    with pytest.raises(error):
        log_probability(P, collection(lb.GRR(3, 1.0), 1), channel)


def test_the_built_model_has_the_laws_of_the_device():
    """The log-probability at points, against Beta densities and the binomial of the reports."""
    data = lb.Collection(["no", "yes"], [lb.Tally(warner(Uncertain.counted([70, 30])), [0, 1], [60, 40])])
    model = build_model(data, "flat")
    logp, names = model.compile_logp(mode="FAST_COMPILE"), [v.name for v in model.value_vars]
    values, plain = [], []
    for share, p in ((0.2, 0.7), (0.5, 0.6), (0.8, 0.75)):
        logits = {"latent": np.log([(1 - share) / share]), "latent_device_1": np.log([p / (1 - p)])}
        values.append(float(logp({name: logits[name] for name in names})))
        jacobians = np.log(share * (1 - share)) + np.log(p * (1 - p))
        reports = binom(100, share * p + (1 - share) * (1 - p)).logpmf(40)
        plain.append(beta(71, 31).logpdf(p) + reports + jacobians)
    np.testing.assert_allclose(np.diff(values), np.diff(plain), rtol=1e-9)
    assert "p" in model.named_vars


@pytest.mark.calibrate
def test_pymc_agrees_with_fit():
    """NUTS on a model of one's own with a random channel, and on the built model, against the quadrature of fit."""
    import pymc as pm

    device = Channel(validated=[[399, 19], [2, 103]])
    data = lb.Collection(["no", "yes"], [lb.Tally(device, [0, 1], [3280, 50])])
    exact = lb.fit(data, "flat", random_seed=1)["exact"].to_dataset()
    mean, sd = float(exact["distribution_mean"][1]), float(exact["distribution_sd"][1])
    with pm.Model():
        share, specificity, sensitivity = (
            pm.Uniform("share"),
            pm.Beta("specificity", 400, 3),
            pm.Beta("sensitivity", 104, 20),
        )
        channel = pm.math.stack([[specificity, 1 - sensitivity], [1 - specificity, sensitivity]])
        observe("reports", pm.math.stack([1 - share, share]), data, channel=channel)
        own = pm.sample(1000, tune=1500, chains=4, target_accept=0.95, random_seed=1, progressbar=False)
    with build_model(data, "flat"):
        built = pm.sample(1000, tune=1500, chains=4, target_accept=0.95, random_seed=1, progressbar=False)
    for draws in (own["posterior"]["share"].values, attach(built, data)["posterior"]["distribution"].values[..., 1]):
        assert abs(draws.mean() - mean) < 0.15 * sd
        assert draws.std() == pytest.approx(sd, rel=0.1)
