"""The command ``ldpbayes simulate``."""

import secrets

from ldpbayes import files
from ldpbayes.cli import options, printing
from ldpbayes.errors import ArgumentError, shown


def command(
    file=None,
    truth="zipf",
    n_categories=None,
    protocol="grr",
    parameter=None,
    n=None,
    random_seed=None,
    output=None,
):
    """Draw users from a true population, send them through a protocol, write reports.

    The true values stay in a collection file, in its tables \\[\\[published]] with source = "truth", and in the metadata of
    a Parquet file, so that estimates can be compared with them. A Parquet file states its protocol in a column. This is for
    planning and testing, not for protecting people.

    Examples:

      ldpbayes simulate out.toml --truth zipf --n-categories 100 --users 100000 -p epsilon=1

      ldpbayes simulate out.toml --truth geometric --n-categories 20 --users 5000 --protocol subset -p epsilon=2

      ldpbayes simulate --output out.parquet --n-categories 128 --users 1000000 --protocol oue -p epsilon=1
    """
    from ldpbayes.pages.prose import number_of
    from ldpbayes.simulation import population, simulate, simulate_reports
    from ldpbayes.sources import write_collection

    target = file if output is None else output
    if target is None or (file is not None and output is not None):
        raise ArgumentError("simulate needs one file to write: simulate OUT.toml, or simulate --output OUT.parquet.")
    if not files.is_parquet(target) and target.suffix != ".toml":
        raise ArgumentError(f"output must end in .toml or .parquet, got {shown(str(target))}.")
    files.check_outputs(target, None if files.is_parquet(target) else target.with_suffix(".csv"))
    if n_categories is None and truth in ("zipf", "geometric", "dirichlet"):
        raise ArgumentError(f"n_categories must be given for the population {truth}.")
    random_seed = secrets.randbits(31) if random_seed is None else random_seed
    people = population(truth, n_categories, random_seed=random_seed)
    mechanism = options.made(protocol, people.categories, parameter)
    if n is None and people.counts is None:
        raise ArgumentError(f"n must be given for the {truth} population, got none.")
    if files.is_parquet(target):
        n_reports = int(simulate_reports(target, mechanism, people, n, random_seed=random_seed).sum())
    else:
        collection = simulate(people, mechanism, n, random_seed=random_seed, id=target.stem)
        write_collection(collection, target)
        n_reports = collection.n_reports
    named = f" of {people.title}" if people.title else ""
    printing.say(
        f"Wrote {target}: {number_of(n_reports, 'report')}{named} through {protocol}, "
        f"epsilon {mechanism.epsilon:g}, seed {random_seed}. Now: ldpbayes fit {target}"
    )
