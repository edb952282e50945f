"""The command ``ldpbayes scan``."""

from ldpbayes import files
from ldpbayes.cli import options, printing, settings
from ldpbayes.errors import ArgumentError, shown

#: How the files are read.
READING = options.OptionGroup(
    sample=None,
    keep=None,
    random_seed=0,
    jobs=1,
    spark=None,
    checkpoint=None,
    bad_rows="refuse",
    quarantine=None,
    copies="refuse",
)


def command(
    sources,
    by=None,
    pilot_by=None,
    output=None,
    assignments=None,
    *,
    reports: options.Levelled,
    reading=READING,
    outputs: options.Shown,
):
    """Summarize reports that do not fit in memory, by group, for fit to read.

    Reports of protocols with few possible reports are counted in one pass: grr, hadamard, block_design, cohort_rr, survey
    designs, local_hashing with seeds, oue and sue of at most 16 categories, subset of at most 65,536 sets, rappor of at most
    16 bits. Others (oue, sue, olh, subset, rappor) take two passes. The first counts how many reports support each category.
    The second expands the likelihood of the whole reports at the posterior mean of these counts, the pilot. Memory
    hardly grows with the reports; with by_user temporary files take some 40 bytes a report.

    Cells (groups) that share a pilot add up without another scan, such as the days of a country: scan --by country,day
    --pilot-by country, then fit --by country.

    Examples:

      mkdir -p reports/country=NO/day=1 reports/country=NO/day=2

      ldpbayes simulate reports/country=NO/day=1/a.parquet --n-categories 128 --users 5000 --protocol oue -p epsilon=1

      ldpbayes simulate reports/country=NO/day=2/a.parquet --n-categories 128 --users 5000 --protocol oue -p epsilon=1

      ldpbayes scan reports/ --by country,day --pilot-by country --output summaries.parquet

      ldpbayes fit summaries.parquet --by country

      ldpbayes scan reports/ --protocol oue -p epsilon=1 --n-categories 128 --by country --checkpoint scan.state
    """
    from ldpbayes.scanning import scan, summary_files

    if output is not None and not files.is_parquet(output):
        raise ArgumentError(f"output must end in .parquet, got {shown(str(output))}.")
    checkpoint = reading["checkpoint"]
    outputs.check(output, checkpoint, reading["quarantine"])
    channels = reports.channels
    if "protocol" not in channels and reports.n_categories is not None:
        channels["protocol"] = reports.mechanism  # says that it must be named
    stated = settings.parsed(assignments, "scan") | reading
    grouping = {"by": options.columns(by), "pilot_by": options.columns(pilot_by)}
    try:
        result = scan(
            list(sources), report=reports.columns, **grouping, **channels, progressbar=outputs.shows_progress, **stated
        )
    except KeyboardInterrupt:
        if checkpoint is not None:
            printing.complain(f"{checkpoint} holds what was read: the same command continues from there.", style=None)
        raise
    if output is not None:
        summary_files.write(result, output)
    for state in result.checkpoints if output is None else ():
        state.remove()
    outputs.show(outputs.page_of(result, output=None if output is None else str(output)), output=output)
