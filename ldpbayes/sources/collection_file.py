"""Collection files: ``<id>.toml`` describes categories and channels, tables beside it hold tallies or reports."""

import itertools
import os
import tomllib
from dataclasses import replace
from fractions import Fraction

from ldpbayes import checks, files
from ldpbayes.collections import Cells, Tally, as_collection
from ldpbayes.collections.noncompliance import stated_deniers, undenied
from ldpbayes.collections.survey import SampleColumns
from ldpbayes.errors import ArgumentError, DataError, LDPBayesError, listed, shown
from ldpbayes.protocols import ListExperiment, make_protocol
from ldpbayes.sources.channels import COPIES, RowOptions, assembled, find_channels, read_cells, under_shared_keys
from ldpbayes.sources.copies import check_files
from ldpbayes.sources.encode import encoded_key, fits
from ldpbayes.sources.numbers import as_numbers
from ldpbayes.sources.opening import open_source
from ldpbayes.sources.parameters import plain
from ldpbayes.sources.skipping import Skipped
from ldpbayes.sources.stated import DESCRIBED, TEXTS, checked, doubted, merged
from ldpbayes.sources.stated import facts as facts_stated

_SAMPLE = ("weights", "strata", "cluster", "population_size")
#: What a file states and a caller may state instead.
_ASKED = (*_SAMPLE, "by", "missing")
#: Keys as earlier files have them.
_FORMER = {"weight": "weights", "population": "population_size"}
#: The keys of a collection file and of its channels; ``object`` stands for those whose values are looked at in detail.
_COLLECTION: dict[str, type] = {
    **DESCRIBED,
    **dict.fromkeys((*_SAMPLE, "by", "missing", "categories", "channels"), object),
    "published": list,
}
_CHANNEL: dict[str, type] = {
    **dict.fromkeys(("name", "count", "epsilon", "rate", "by_user"), str),
    **dict.fromkeys(("protocol", "file", "report"), object),
    **dict.fromkeys(("parameters", "where"), dict),
    "n": int,
}


def read_collection(path, rows=None):
    """Read a collection file and the tables that it names.

    The file holds ``id``, ``title``, ``question``, ``citation``, ``licence``, ``notes``, ``categories`` and one
    ``[[channels]]`` table per channel: ``name``, ``protocol`` (a name of ``ldpbayes protocols``), ``parameters``,
    ``file`` (a CSV or Parquet file beside the collection file; Parquet may be a pattern, ``"reports/*.parquet"``),
    ``where`` (column = value, or a list of values: the rows of this channel), ``report`` (the column or columns of one
    report), ``count`` (the column of counts; without it every row is one report) and ``n`` (the total that the counts must
    add up to). Numbers may be written as fractions, "1/6", and logarithms, "ln(3)" or "2*ln(3)/5".

    A list experiment, with channels ``item_count``, may leave out ``categories``; its share of carriers is then ``trait``.
    So may several lists about one trait, with the same ``items`` in every channel.

    ``protocol`` may be left out where the table states it in a column ``protocol``, as ``write`` writes it.
    ``epsilon`` names a column of levels (``protocol`` is then a name, ``parameters`` its others) and ``rate`` one of rates
    of randomized response, as for ``read``. Each level is a channel.

    ``by_user`` names the column of users, where a user may have sent several reports, one a row. Every user is then one
    report, a history, as for ``read``, and ``n`` the number of users.

    ``ordered = true`` says that the categories stand in their order, as ages do, so that the prior ``smooth`` is an option.

    A table ``[noncompliance]`` with lines ``name = "law"`` adds respondents who ignore the device; the laws are those of
    ``Collection.with_noncompliers``. A table ``[deniers]`` with ``of``, ``say`` and ``channel`` says which categories are
    denied, as which, and in which channels: the arguments of ``Collection.with_deniers``.

    Keys ``weights``, ``strata`` and ``cluster``, columns that the tables of all channels have, say how the respondents were
    sampled, and ``population_size`` how many respondents (or clusters, where these were sampled) there are: a number, or a
    table with one for each stratum. See ``read``.

    ``missing``, a label or a list of labels, says what the tables have for an answer that was not given, beside nothing at
    all; how many these are, by cell, stands in ``missing`` of the result and in its notes.

    A key ``by``, a column or a list of columns that the tables of all channels have, splits the reports into cells: the
    result has one collection for every combination that occurs.

    Parameters
    ----------
    path : path-like
    rows : RowOptions, optional
        Grouping columns, columns of the sample and of users, labels of missing answers and other keys, instead of those
        of the file; and what becomes of bad rows.

    Returns
    -------
    Collection or Cells
        Cells with ``by``: the keys are tuples with an entry per grouping column, whole numbers where all entries of a
        column are whole numbers, and texts otherwise.

    Raises
    ------
    DataError
        Naming file, line and field, on anything malformed.

    Warns
    -----
    RankDeficientWarning
        Where the channels together cannot tell some categories apart.
    """
    rows, path = RowOptions() if rows is None else checks.instance(rows, "rows", RowOptions, "Rows"), files.as_path(path)
    document = {_FORMER.get(key, key): value for key, value in files.read_toml(path).items()}
    asked = {name: getattr(rows, name) for name in _ASKED if getattr(rows, name) is not None}
    stated = checked(merged(document, {**(rows.stated or {}), **asked}), _COLLECTION, path)
    if stated["categories"] is None:
        stated |= {key: value for key, value in _lists(document).items() if stated[key] is None}
    categories, channels = stated["categories"], stated["channels"]
    if not isinstance(categories, list) or not all(isinstance(c, str) for c in categories):
        raise DataError('must be a list of labels, such as ["no", "yes"]', source=path, field="categories")
    if len(categories) < 2:
        raise DataError(f"must be at least two labels, got {len(categories)}", source=path, field="categories")
    if not isinstance(channels, list) or not channels or not all(isinstance(c, dict) for c in channels):
        raise DataError("needs at least one [[channels]] table", source=path, field="channels")
    if not all(isinstance(entry, dict) for entry in stated["published"] or ()):
        raise DataError("must be [[published]] tables", source=path, field="published")
    rows = replace(rows, **{name: stated[name] for name in _ASKED})
    by = _grouping(rows.by, path)
    skipped = Skipped.of(rows.bad_rows, rows.quarantine)
    try:
        columns = rows.columns(by, skipped)
        facts = {"id": files.stem(path)} | facts_stated(stated) | {"published": tuple(stated["published"] or ())}
        own = [channel if rows.by_user is None else channel | {"by_user": rows.by_user} for channel in channels]
        found = [_read_channel(path, categories, channel, i, columns, rows.copies) for i, channel in enumerate(own)]
        sources = [source for _, source in found]
        if skipped is not None:
            skipped.tell(rows.quarantine)
        read = [cells for channel_cells, _ in found for cells in channel_cells]
        facts["notes"] = "\n".join(filter(None, [facts.get("notes"), *_unclaimed(path, channels, skipped is not None)]))
        collection = doubted(assembled(under_shared_keys(read), categories, columns, facts), stated)
        if rows.copies == "refuse":
            _refuse_doubled(channels, sources)
    except DataError as err:
        raise err.at(source=path) from err.__cause__
    except LDPBayesError as err:
        raise DataError(str(err).rstrip("."), source=path) from err
    if not by:
        collection.announce()
    return collection


def write_collection(collection, path):
    """Write a collection or cells as a TOML file and one CSV beside it; reading it back gives the same collection.

    Parameters
    ----------
    collection : Collection, Tally or Cells
        The keys of cells are written as text, and their covariates are not written.
    path : path-like
        Ends in ``.toml``; the tallies go to the same name with ``.csv``.

    Raises
    ------
    ArgumentError
        Where path does not end in ``.toml``; on cells that are summaries, whose channels differ between cells, or whose
        grouping columns have a name that the table needs.
    DataError
        Where it cannot be written, and where the CSV file is there already and no TOML file beside it names it.
    """
    import tomli_w

    path = files.as_path(path)
    if path.suffix != ".toml":
        raise ArgumentError(f"path must end in .toml, got {shown(str(path))}; the tallies go to a .csv file beside it.")
    table = path.with_suffix(".csv")
    files.check_output(table)
    if table.is_file() and not (path.is_file() and table.name in path.read_text(encoding="utf-8", errors="replace")):
        raise DataError(f"is there, and is not the table of {path.name}; name another file", source=table)
    if isinstance(collection, Cells) and not collection.keeps_reports:
        raise ArgumentError("cells that are summaries must be written to a path that ends in .parquet.")
    by = collection.by if isinstance(collection, Cells) else ()
    collection = collection if by else as_collection(collection)
    deniers = stated_deniers(collection)
    if deniers is not None:
        collection = (
            collection.with_cells({k: undenied(cell) for k, cell in collection.items()}) if by else undenied(collection)
        )
    cells = {tuple(map(str, key)): cell for key, cell in collection.items()} if by else {(): collection}
    sample, channels = _sampled(cells, _channels(cells))
    tallies = [tally for parts in channels.values() for _, tally in parts]
    taken = ["channel", "count", *(field for tally in tallies for field in tally.protocol.report_fields), *by, *sample.names]
    if twice := next((name for name in (*by, *sample.names) if taken.count(name) > 1), None):
        raise ArgumentError(f"the table needs the column {shown(twice)} for something else; rename that grouping column.")
    lost = _lost(cells, sample)
    label = "no answer"
    while label in collection.categories:
        label += "?"
    facts = {key: _shared(collection, cells, key) for key in (*TEXTS, "ordered", "published")}
    document = {key: facts[key] for key in TEXTS} | {"by": list(by)} | {key: getattr(sample, key) for key in _SAMPLE}
    document |= {"missing": label if lost else None, "categories": list(collection.categories), "ordered": facts["ordered"]}
    document["channels"] = [_channel_entry(parts, table.name, len(channels) == 1) for parts in channels.values()]
    document["derived"] = {
        item.name: {"of": list(item.of)} | ({"given": list(item.given)} if item.given else {}) for item in collection.derived
    }
    document |= {"deniers": deniers, "published": list(facts["published"] or ())}
    document = {key: value for key, value in document.items() if value}
    described = tomli_w.dumps(document, multiline_strings=True)
    if tomllib.loads(described) != document:  # carriage returns survive only in one-line strings
        described = tomli_w.dumps(document)
    # Both are finished before either takes its place: an interrupted run leaves the old pair.
    with files.replacing(table) as rows, files.replacing(path) as description:
        with open(rows, "w", encoding="utf-8", newline="") as handle:
            files.write_rows(handle, _table_lines(document["categories"], (*by, *sample.names), channels, lost, label))
        description.write_text(described, encoding="utf-8", newline="\n")


def _lists(document):
    """Return the categories and the derived share of a list experiment, which need not be stated; nothing of other files."""
    channels = document.get("channels")
    channels = [channel for channel in channels if isinstance(channel, dict)] if isinstance(channels, list) else []
    stated = [channel.get("parameters") for channel in channels if channel.get("protocol") == "item_count"]
    if not stated or not isinstance(stated[0], dict) or "items" not in stated[0]:
        return {}
    design = ListExperiment(stated[0]["items"])
    return {"categories": list(design.categories), "derived": {"trait": {"of": list(design.carriers)}}}


def _channels(cells):
    """Return the (key, tally) of the cells by the name of their channel."""
    channels: dict = {}
    for key, cell in cells.items():
        for tally in cell.tallies:
            channels.setdefault(tally.name, []).append((key, tally))
    for name, parts in channels.items():
        if any(tally.protocol != parts[0][1].protocol for _, tally in parts):
            raise ArgumentError(f"channel {shown(name)} has another protocol in another cell; write the cells one by one.")
    odd = next((text for key in cells for text in key if not text or text != text.strip()), None)
    if odd is not None:
        raise ArgumentError(f"keys of cells must be texts without blanks around them to be written, got {shown(odd)}.")
    return channels


def _sampled(cells, channels):
    """Return (SampleColumns, channels split by weight, stratum and cluster) of what was not sampled at random."""
    surveys = [cell.survey for cell in cells.values()]
    if all(survey is None for survey in surveys):
        return SampleColumns(), channels
    stated = [None if survey is None else survey.columns() for survey in surveys]
    weights = next((columns.weights for columns in stated if columns is not None and columns.weights is not None), None)
    alike = [None if columns is None else replace(columns, weights=weights) for columns in stated]
    if any(columns is None or columns != alike[0] for columns in alike):
        raise ArgumentError("cells must all be sampled alike to be written in one file.")
    split: dict = {name: [] for name in channels}
    for key, cell in cells.items():
        for i, tally in enumerate(cell.tallies):
            for own, place, counts in cell.survey.kinds(i, alike[0]):
                part = Tally.trusted(tally.protocol, tally.reports[place], counts, tally.name)
                split[tally.name].append(((*key, *own), part))
    return alike[0], split


def _lost(cells, sample):
    """Return [(key, how many of these gave no answer)], where it is known with the entries of the columns of the sample."""
    lost = []
    for key, cell in cells.items():
        if cell.missing and cell.survey is not None and cell.survey.asked is not None:
            lost += [((*key, *own), int(n.sum())) for own, _, n in cell.survey.asked.kinds(-1, sample)]
        elif cell.missing:
            lost.append(((*key, *[""] * len(sample.names)), cell.missing))
    return lost


def _shared(collection, cells, name):
    """Return a field of a collection; of cells, their own, or the one that all of them share, else None."""
    if name in ("id", "title"):
        return getattr(collection, name)
    first, *others = (getattr(cell, name) for cell in cells.values())
    return first if all(other == first for other in others) else None


def _channel_entry(parts, table, single):
    """Return the [[channels]] table of one channel."""
    tally = parts[0][1]
    entry = {"name": tally.name, "protocol": tally.protocol.design, "file": table}
    entry |= {} if single else {"where": {"channel": tally.name}}
    fields = tally.protocol.report_fields
    entry |= {"report": fields[0] if len(fields) == 1 else list(fields), "count": "count"}
    entry |= {"n": sum(tally.n_reports for _, tally in parts)}
    parameters = plain(tally.protocol.parameters(), _written)
    return entry | ({"parameters": parameters} if parameters else {})


def _table_lines(categories, by, channels, lost, label):
    """Yield the lines of the table: channels share the columns of the same name and leave the others empty."""
    fields = list(dict.fromkeys(field for parts in channels.values() for field in parts[0][1].protocol.report_fields))
    single = len(channels) == 1
    yield [*by, *([] if single else ["channel"]), *fields, "count"]
    for name, parts in channels.items():
        for key, tally in parts:
            columns = tally.protocol.format_reports(tally.reports, categories)
            texts = dict(zip(tally.protocol.report_fields, columns, strict=True))
            columns = [texts.get(field, itertools.repeat("")) for field in fields]
            names = map(itertools.repeat, key if single else (*key, name))
            yield from zip(*names, *columns, tally.counts.tolist(), strict=False)
    name, parts = next(iter(channels.items()))
    for key, n in lost:  # answers that are missing, as lines of the first channel
        entries = (label if field in parts[0][1].protocol.report_fields else "" for field in fields)
        yield [*key, *([] if single else [name]), *entries, n]


def _grouping(by, path):
    """Return the grouping columns of a collection file."""
    by = [] if by is None else [by] if isinstance(by, str) else list(by) if isinstance(by, tuple) else by
    if not isinstance(by, list) or not all(isinstance(name, str) and name for name in by) or len(set(by)) != len(by):
        raise DataError("must be the name of a column or a list of distinct names", source=path, field="by")
    return by


def _conditions(channel):
    """Return {column: the entries of a channel's rows there}; empty where all rows are the channel's."""
    where = channel.get("where") or {}
    return {key: value if isinstance(value, list) else [value] for key, value in where.items()}


def _entries(source, name):
    """Return the distinct entries of a column, None for missing ones."""
    found = (encoded_key(batch.table, name, missing=True) for batch in source.condensed([name]))
    return {values[code] for codes, values in found for code in set(codes.tolist())}


def _meet(name, ours, theirs, source):
    """Return whether rows have an entry of a column that fits conditions of two channels; 1.5 may be ``1.50`` there."""
    if set(zip(map(type, ours), ours, strict=True)) & set(zip(map(type, theirs), theirs, strict=True)):
        return True
    if not set(map(_loosely, ours)) & set(map(_loosely, theirs)):
        return False
    return any(all(any(fits(key, one, name) for one in said) for said in (ours, theirs)) for key in _entries(source, name))


def _loosely(entry):
    """Return an entry such that those are equal which a column may take for one."""
    text = str(entry).strip().casefold()
    try:
        return float(text)
    except ValueError:
        return text


def _refuse_doubled(channels, sources):
    """Refuse two channels of which one has rows of the other, by what they state, and files that are copies."""
    opened = [{os.path.realpath(file.source): file for file in source.files} for source in sources]
    for (first, paths, source), (second, others, _) in itertools.combinations(
        zip(channels, opened, sources, strict=True), 2
    ):
        fewer, more = sorted((_conditions(first), _conditions(second)), key=len)
        same = all(first.get(name) == second.get(name) for name in ("protocol", "report", "count"))
        same = same and paths.keys() & others
        if same and all(_meet(key, more.get(key, ()), entries, source) for key, entries in fewer.items()):
            raise ArgumentError(
                f"two channels have the same rows of {shown(first.get('file'))}: 'where' must tell them apart; copies='add' "
                "adds them up."
            )
    for count in dict.fromkeys(channel.get("count") for channel in channels):
        of_all = [paths for channel, paths in zip(channels, opened, strict=True) if channel.get("count") == count]
        check_files([*dict(itertools.chain.from_iterable(paths.items() for paths in of_all)).values()], count)


def _unclaimed(path, channels, lenient):
    """Yield a sentence for each table with rows that no channel has, where all conditions on it are about one column."""
    for name in dict.fromkeys(channel.get("file") for channel in channels):
        conditions = [_conditions(channel) for channel in channels if channel.get("file") == name]
        column = next(iter(conditions[0]), None)
        if column is None or any(set(condition) != {column} for condition in conditions):
            continue
        source = open_source(path.parent / name)
        source.lenient = lenient
        claimed = [entry for condition in conditions for entry in condition[column]]
        left = {key for key in _entries(source, column) if not any(fits(key, one, column) for one in claimed)}
        if rest := {"missing" if key is None else str(key) for key in left}:
            yield f"Rows of {name} where {column} is {listed(sorted(rest))} belong to no channel and are left out."


def _read_channel(path, categories, channel, position, columns, copies):
    """Return (tallies by key of every channel of a [[channels]] table, () without grouping columns; its source)."""
    name = channel.get("name", "all" if position == 0 else f"channel {position + 1}")
    field = f"channels.{name}" if isinstance(name, str) else "channels"
    stated = checked(channel, _CHANNEL, path, field)
    if not isinstance(stated["file"], str) or not stated["file"]:
        raise DataError("needs 'file'", source=path, field=field)
    protocol = _stated_protocol(path, categories, stated, field)
    report = [stated["report"]] if isinstance(stated["report"], str) else stated["report"]
    if report is not None and (not isinstance(report, list) or not all(isinstance(column, str) for column in report)):
        fields = () if protocol is None or stated["epsilon"] is not None else protocol.report_fields
        named = f"{len(fields)} column{'s' * (len(fields) > 1)} ({', '.join(fields)})"
        what = named if fields else "a column or a list of columns"
        raise DataError(f"report must name {what}", source=path, field=field)
    if stated["count"] is not None and not stated["count"].strip():
        raise DataError("count must name a column; leave it out where every row is one report", source=path, field=field)
    file, where = path.parent / stated["file"], stated["where"] or {}
    entries = itertools.chain(*(value if isinstance(value, list) else [value] for value in where.values()))
    if not all(isinstance(entry, (str, int, float)) for entry in entries):
        raise DataError("where must hold a value for each column, or a list of values", source=path, field=field)
    columns = replace(columns, report=report, count=stated["count"], where=where, user=stated["by_user"])
    try:
        source = open_source(file)
        source.lenient, source.count_column = columns.skipped is not None, stated["count"]
        source.copies = checks.choice(copies, "copies", COPIES)
        levels = {"epsilon": stated["epsilon"], "rate": stated["rate"], "name": name}
        channels = find_channels(source, protocol, columns, categories=categories, **levels)
        tallies = read_cells(source, channels, columns)
        if not any(tallies):
            condition = " and ".join(f"{key} = {shown(value)}" for key, value in where.items())
            raise DataError(f"has no rows for channel {shown(name)}" + (f", where {condition}" if where else ""))
    except DataError as err:
        raise err.at(source=file) from err.__cause__
    except ArgumentError as err:  # what the channel states does not go with the table
        raise DataError(str(err).rstrip("."), source=path, field=field) from err
    except LDPBayesError as err:
        raise DataError(str(err).rstrip("."), source=file) from err
    total = sum(tally.n_reports for cells in tallies for tally, *_ in cells.values())
    if stated["n"] not in (None, total):
        raise DataError(f"counts add up to {total}, but n says {stated['n']}", source=path, field=field)
    return tallies, source


def _stated_protocol(path, categories, channel, field):
    """Return what a [[channels]] table states as protocol: an object, with ``epsilon`` a function of levels, or None."""
    name, varies = channel["protocol"], channel["epsilon"] is not None
    if name is None and not varies:
        if channel["parameters"] is not None:
            raise DataError("needs 'protocol' beside its parameters", source=path, field=field)
        return None
    if not isinstance(name, str):
        raise DataError("needs 'protocol'", source=path, field=field)
    try:
        parameters = as_numbers(channel["parameters"] or {})
        if varies and "epsilon" in parameters:
            raise ArgumentError("epsilon must not be among the parameters where a column holds it.")
        if varies:
            return lambda level: make_protocol(name, categories, parameters | {"epsilon": level})
        return make_protocol(name, categories, parameters)
    except (LDPBayesError, TypeError) as err:
        raise DataError(str(err).rstrip("."), source=path, field=field) from err


def _written(number):
    """Return a number as TOML has it: small fractions that are long decimals become "p/q"."""
    fraction = Fraction(number).limit_denominator(1000) if len(repr(number)) > 10 else None
    return str(fraction) if fraction is not None and float(fraction) == number else number
