"""The command line."""

import contextlib
import enum
import json
import math
import pathlib
import sys
import tomllib
import warnings
from typing import Annotated

import typer

from ldpbayes.cli.plan import plan
from ldpbayes.cli.study import study
from ldpbayes.errors import ArgumentError, LDPBayesError, LDPBayesWarning
from ldpbayes.pages.terminal import err, new_table, out

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help=(
        "Bayesian inference from privatised categorical data: local-differential-privacy reports and randomised-response "
        "surveys.\n\nStart with [bold]ldpbayes fit data/rr_nigeria.toml[/bold]. A collection file names the categories, "
        "the protocol with its parameters, and a CSV of tallies or reports; [bold]ldpbayes protocols[/bold] lists what "
        "may stand in it."
    ),
)

#: Categories that a printed table shows unless --top says otherwise.
TOP = 40


class Method(enum.StrEnum):
    """Posterior methods that --method takes."""

    auto = "auto"
    exact = "exact"
    quadrature = "quadrature"
    tally_states = "tally_states"
    surrogate = "surrogate"
    augmentation = "augmentation"
    pair_slice = "pair_slice"
    nuts = "nuts"


File = Annotated[pathlib.Path, typer.Argument(metavar="FILE", help="Collection file, such as data/rr_nigeria.toml.")]
Prior = Annotated[
    str, typer.Option(help="Dirichlet prior: [bold]jeffreys[/bold], [bold]flat[/bold], or a concentration such as 0.5 or 2.")
]
Seed = Annotated[int | None, typer.Option(help="Random seed; the same seed prints the same numbers.", min=0)]
Draws = Annotated[int, typer.Option(help="Draws per chain (four chains).", min=1)]


@app.command()
def fit(
    file: File,
    method: Annotated[Method, typer.Option(help="Posterior method; [bold]auto[/bold] says why it picks one.")] = Method.auto,
    prior: Prior = "jeffreys",
    ci: Annotated[float, typer.Option(help="Probability of the equal-tailed intervals.")] = 0.95,
    draws: Draws = 1000,
    seed: Seed = None,
    output: Annotated[pathlib.Path | None, typer.Option(help="Write the whole result as NetCDF (ArviZ reads it).")] = None,
    plot: Annotated[pathlib.Path | None, typer.Option(help="Write a forest plot (.png, .pdf, .svg).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    top: Annotated[int, typer.Option(help="Categories to print, largest posterior mean first chosen.", min=1)] = TOP,
    explain: Annotated[bool, typer.Option(help="Only say which method auto would choose, and why.")] = False,
):
    """Infer the distribution P and the users' own frequencies F from a collection.

    Prints posterior mean, sd and interval of P and of F for each category, beside the maximum-likelihood estimate (MLE)
    and the unbiased oracle; then the method, why it was chosen, and whether its diagnostics are good.

    Examples:

      ldpbayes fit data/rr_nigeria.toml --prior flat --ci 0.9

      ldpbayes fit data/rr_minarets.toml --plot minarets.png --output minarets.nc

      ldpbayes fit data/rr_eriksson_cheating.toml --method nuts --seed 1 --json
    """
    from ldpbayes.fitting import fit as run
    from ldpbayes.sources import read_collection

    collection = read_collection(file)
    if explain:
        return _explain(collection, _prior(prior))
    tree = run(
        collection,
        _prior(prior),
        method.value,
        draws=draws,
        random_seed=seed,
        ci_prob=ci,
        progressbar=sys.stderr.isatty() and not as_json,
    )
    if output:
        from ldpbayes.result import save

        save(tree, output)
    if plot:
        from ldpbayes.plots import plot_forest, save_figure

        save_figure(plot_forest(tree), plot)
    if as_json:
        typer.echo(json.dumps(_as_json(tree), ensure_ascii=False, indent=2))
    else:
        _print_fit(tree, top)
        for path in filter(None, (output, plot)):
            out.print(f"Wrote {path}.", highlight=False)


@app.command()
def crosscheck(file: File, prior: Prior = "jeffreys", draws: Draws = 1000, seed: Seed = None):
    """Run exact (where feasible), NUTS, MLE and oracle side by side, and check that the channel fits the reports.

    Exit status 0: nothing to flag; 1: something is flagged (the last lines say what); 2: bad input.
    """
    from ldpbayes.fitness.crosschecking import crosscheck as run
    from ldpbayes.sources import read_collection

    collection = read_collection(file)
    report = run(collection, _prior(prior), random_seed=seed, draws=draws, progressbar=sys.stderr.isatty())
    title = f"{collection.title or collection.id}: {report.reference} against {report.sampler}"
    points = [f"{_LABELS.get(name, name)} − mean (sd)" for name in report.estimates]
    table = new_table(title, ["category"], ["mean", "sd", "NUTS − mean (sd)", "(MCSE)", *points], ["verdict"])
    for x, category in enumerate(report.categories):
        numbers = [f"{report.mean[x]:.4f}", f"{report.sd[x]:.4f}"]
        numbers += [f"{report.difference_sd[x]:+.3f}", f"{report.difference_mcse[x]:+.2f}"]
        numbers += [f"{away[x]:+.2f}" for away in report.estimates.values()]
        table.add_row(category, *numbers, report.verdicts[x])
    out.print(table)
    for check in report.channels:
        word, style = ("does not fit", "red") if check.flagged else ("fits", None)
        sentence = f"Posterior predictive check of {check.name}: p = {check.p_value:.3f} over {check.draws} draws: {word}."
        out.print(sentence, style=style)
    out.print(report.outcome)
    out.print(report.conclusion, style="red" if report.flagged else "green")
    raise typer.Exit(1 if report.flagged else 0)


app.command()(plan)
app.command()(study)


@app.command()
def simulate(
    output: Annotated[
        pathlib.Path, typer.Argument(metavar="OUT.toml", help="Collection file to write; its CSV goes beside it.")
    ],
    population: Annotated[
        str,
        typer.Option(help="True population: a file such as data/populations/adult_age.csv, or zipf, geometric, dirichlet."),
    ] = "zipf",
    categories: Annotated[
        int | None, typer.Option(help="Number of categories of zipf, geometric and dirichlet.", min=2)
    ] = None,
    protocol: Annotated[str, typer.Option(help="A name of [bold]ldpbayes protocols[/bold].")] = "grr",
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", help="A protocol's parameter, name=value; may be repeated.")
    ] = None,
    users: Annotated[
        int | None, typer.Option(help="Number of users; without it everyone in a population file.", min=1)
    ] = None,
    seed: Seed = None,
):
    """Simulate a collection: draw users from a true population and send them through a protocol.

    The true values stay in the file under [[published]], with source = "truth", so that an estimate can be held against
    them. This is for planning and testing, not for protecting people.

    Examples:

      ldpbayes simulate out.toml --population zipf --categories 100 --users 100000 -p epsilon=1

      ldpbayes simulate out.toml --population data/populations/adult_age.csv --protocol subset -p epsilon=2
    """
    from ldpbayes.protocols import make_protocol
    from ldpbayes.simulate import population as make_population
    from ldpbayes.simulate import simulate_collection
    from ldpbayes.sources import write_collection

    truth = make_population(population, categories, random_seed=seed)
    mechanism = make_protocol(protocol, truth.categories, _parameters(parameter or []))
    if users is None and truth.counts is None:
        raise ArgumentError(f"users must be given for the {population} population, got none.")
    collection, _ = simulate_collection(mechanism, truth, users, random_seed=seed, id=output.stem)
    write_collection(collection, output)
    out.print(
        f"Wrote {output}: {collection.n_reports:,} reports of {truth.title} through {protocol}, "
        f"epsilon {mechanism.epsilon:g}. Now: ldpbayes fit {output}",
        highlight=False,
        soft_wrap=True,
    )


@app.command()
def protocols():
    """List the protocols and survey designs that a collection file may name, with their parameters."""
    from ldpbayes.protocols import describe_protocols

    title = "protocol = … in a collection file; parameters go under [channels.parameters]"
    table = new_table(title, ["protocol", "parameters", "what it is"])
    for row in describe_protocols():
        table.add_row(*row)
    out.print(table)


def main(arguments=None):
    """Run the command line; every error of ldpbayes is one sentence on standard error and exit status 2."""
    from threadpoolctl import threadpool_limits

    # Small products over two BLAS pools (NumPy's and SciPy's) lose more to waiting than a second thread gains.
    with _warnings_as_sentences(), threadpool_limits(limits=1):
        try:
            app(args=arguments, standalone_mode=True)
        except LDPBayesError as error:
            err.print(f"ldpbayes: {error}", style="red", highlight=False, soft_wrap=True)
            raise SystemExit(2) from None
        except KeyboardInterrupt:
            err.print("ldpbayes: interrupted; no file was changed.", highlight=False)
            raise SystemExit(130) from None


_LABELS = {"mle": "MLE", "oracle": "oracle"}


def _parameters(pairs):
    """Return a dict from name=value texts; values are TOML where they parse, else text."""
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ArgumentError(f"parameter must be name=value, got {pair!r}.")
        try:
            found[name.strip()] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            found[name.strip()] = text
    return found


def _prior(text):
    try:
        return float(text)
    except ValueError:
        return text


def _print_fit(tree, top):
    summary, category = tree["summary"], tree["summary"]["category"].values
    estimates = tree["estimate"]
    level = f"{summary.attrs['ci_prob'] * 100:g} % interval"
    names = [str(name) for name in estimates["estimator"].values]
    numbers = [name for target in ("P", "F") for name in (f"mean of {target}", "sd", level)]
    numbers += [_LABELS.get(name, name) for name in names]
    table = new_table(tree.attrs["title"] or tree.attrs["collection"], ["category"], numbers)
    digits = _digits(summary)
    mean = summary["mean"].sel(target="distribution").values
    shown = sorted(sorted(range(mean.size), key=lambda x: -mean[x])[:top])
    for x in shown:
        cells = [cell for target in ("distribution", "frequency") for cell in _interval_cells(summary, target, x, digits)]
        values = [f"{estimates['value'].sel(estimator=name).values[x]:.{digits}f}" for name in names]
        table.add_row(str(category[x]), *cells, *values)
    out.print(table)
    if len(shown) < mean.size:
        out.print(f"The {len(shown)} largest of {mean.size} categories; --top N shows more, --json all.")
    for i, quantity in enumerate(summary["quantity"].values if "quantity" in summary.coords else ()):
        mean_, sd, low, high = (summary[f"derived_{key}"].values[i] for key in ("mean", "sd", "lower", "upper"))
        out.print(f"{quantity} = {mean_:.4f}, sd {sd:.4f}, {level} {low:.4f} to {high:.4f}", highlight=False)
    _print_trust(tree)


def _interval_cells(summary, target, x, digits):
    mean, sd, low, high = (summary[key].sel(target=target).values[x] for key in ("mean", "sd", "lower", "upper"))
    return f"{mean:.{digits}f}", f"{sd:.{digits}f}", f"{low:.{digits}f} to {high:.{digits}f}"


def _digits(summary):
    """Return how many decimals show two digits of the smallest sd, four at least."""
    sd = summary["sd"].values
    return min(max(4, math.ceil(1 - math.log10(sd[sd > 0].min()))), 12) if (sd > 0).any() else 4


def _print_trust(tree):
    attrs = tree.attrs
    lines = [
        f"{attrs['n_reports']:,} reports; prior {attrs['prior']}; method {attrs['method']}; seed {attrs['random_seed']}.",
        f"Why {attrs['method']}: {attrs['reason']}",
        attrs["outcome"],
        attrs["caveat"],
        attrs["worth"],
    ]
    evidence, error = _log_evidence(tree)
    if evidence is not None:
        lines.append(f"Log-evidence {evidence:.4f}" + (f", standard error {error:.4f}." if error else "."))
    named = zip(tree["estimate"]["estimator"].values, tree["estimate"]["outcome"].values, strict=True)
    lines += [f"{_LABELS.get(str(name), name)}: {text}" for name, text in named]
    for line in filter(None, lines):
        out.print(line, highlight=False, soft_wrap=True)


def _log_evidence(tree):
    """Return (log-evidence, its standard error); (None, None) where the method has none."""
    if "exact" in tree.children and "log_evidence" in tree["exact"]:
        return float(tree["exact"]["log_evidence"]), 0.0
    return tree.attrs.get("log_evidence"), tree.attrs.get("log_evidence_error")


def _explain(collection, prior):
    from ldpbayes.fitting import select_method

    choice = select_method(collection, prior)
    title = f"{collection.title or collection.id}: what auto considers, in order"
    table = new_table(title, ["method", "applies", "predicted seconds", "why"])
    for name, answer in choice.considered:
        mark = "chosen" if name == choice.method.name else ("yes" if answer.feasible else "no")
        table.add_row(name, mark, "" if math.isnan(answer.seconds) else f"{answer.seconds:.2g}", answer.reason)
    out.print(table)


def _as_json(tree):
    summary = tree["summary"]
    targets = {
        target: {key: _plain(summary[key].sel(target=target)) for key in ("mean", "sd", "lower", "upper", "mcse")}
        for target in ("distribution", "frequency")
    }
    estimates = {
        str(name): _plain(tree["estimate"]["value"].sel(estimator=name)) for name in tree["estimate"]["estimator"].values
    }
    facts = ("title", "n_reports", "prior", "random_seed", "identifiability", "caveat")
    diagnostics = {k: v for k, v in tree.attrs.items() if k not in (*facts, "collection", "method", "reason", "settings")}
    derived = {
        str(name): {key: _plain(summary[f"derived_{key}"][i]) for key in ("mean", "sd", "lower", "upper", "mcse")}
        for i, name in enumerate(summary["quantity"].values if "quantity" in summary.coords else ())
    }
    return {
        "collection": tree.attrs["collection"],
        "method": tree.attrs["method"],
        "reason": tree.attrs["reason"],
        **{fact: _plain(tree.attrs[fact]) for fact in facts},
        "ci_prob": summary.attrs["ci_prob"],
        "categories": [str(c) for c in summary["category"].values],
        **targets,
        "derived": derived,
        "mle": estimates.get("mle"),
        "oracle": estimates.get("oracle"),
        "log_evidence": _plain(_log_evidence(tree)[0]),
        "diagnostics": {key: _plain(value) for key, value in diagnostics.items()},
    }


def _plain(value):
    """Return a value as JSON knows it; numbers that are not finite become null."""
    value = getattr(value, "values", value)
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextlib.contextmanager
def _warnings_as_sentences():
    """Print each warning of ldpbayes once, as a sentence on standard error."""
    said = set()

    def show(message, category, *args, **kwargs):
        if issubclass(category, LDPBayesWarning) and str(message) not in said:
            said.add(str(message))
            err.print(f"Warning: {message}", style="yellow", highlight=False, soft_wrap=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", LDPBayesWarning)
        warnings.showwarning = show
        yield
