"""A regression of an open outcome on a private yes or no, as in a textbook: the answer is summed out of every row.

A person with covariates x has the answer z = 1 with the log odds x γ, sends a report r with probability Q[r, z], and has an
outcome y with mean, log odds or log mean x β + z δ. Nobody knows z, so the row has the likelihood

    P(r, y | x) = Σ_z Q[r, z] P(z | x) f(y | x β + z δ).

Columns but the first are centred and divided by their standard deviation. The log odds of z have the prior N(0, 2.5²)
for one sd of a column, and N(0, π²) for a person with average covariates. The linear predictor of y, in sds of y about
its mean (in logs about the log of the mean count, in log odds about 0), has the same; δ has N(0, 2.5²), and the
intercept is that between the two answers. The sd of y given all is half-normal, in sds of y.

This file does not import ldpbayes. It is documentation, and a second opinion: a test holds the two to the same numbers.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt


def model(x, reports, y, channel, family):
    """Return the PyMC model; ``beta``, ``delta`` and ``gamma`` are on the columns as they are.

    Parameters
    ----------
    x : (n, terms) array
        Covariates with a column of ones in front.
    reports : (n,) array of int
    y : (n,) array
    channel : (outputs, 2) array
        Q[r, z].
    family : {"normal", "bernoulli", "poisson"}
    """
    x, y, channel = (np.asarray(part, dtype=float) for part in (x, y, channel))
    mean, sd = x.mean(axis=0), x.std(axis=0)
    standard = np.column_stack([np.ones(len(x)), (x[:, 1:] - mean[1:]) / sd[1:]])
    centre = {"normal": y.mean(), "bernoulli": 0.0, "poisson": np.log(y.mean())}[family]
    unit = y.std() if family == "normal" else 1.0
    scales = np.array([np.pi, *[2.5] * (x.shape[1] - 1)])
    with pm.Model() as result:
        g = pm.Normal("g", 0, scales)
        b = pm.Normal("b", 0, scales)
        d = pm.Normal("d", 0, 2.5)
        eta = pt.dot(standard, b)[:, None] + d * np.array([-0.5, 0.5])
        if family == "normal":
            spread = pm.HalfNormal("spread", 1)
            density = pm.logp(pm.Normal.dist(eta, spread), ((y - centre) / unit)[:, None]) - np.log(unit)
        elif family == "bernoulli":
            density = pm.logp(pm.Bernoulli.dist(logit_p=eta), y[:, None].astype(int))
        else:
            density = pm.logp(pm.Poisson.dist(pt.exp(eta + centre)), y[:, None].astype(int))
        odds = pt.dot(standard, g)
        shares = pt.stack([-pt.softplus(odds), -pt.softplus(-odds)], axis=1)
        pm.Potential("rows", pt.logsumexp(np.log(channel)[np.asarray(reports)] + shares + density, axis=1).sum())
        for name, part in (("gamma", g), ("beta", unit * b)):
            slopes = part[1:] / sd[1:]
            first = part[:1] - (slopes * mean[1:]).sum(keepdims=True)
            if name == "beta":
                first = first + centre - unit * d / 2
            pm.Deterministic(name, pt.concatenate([first, slopes]))
        pm.Deterministic("delta", unit * d)
    return result
