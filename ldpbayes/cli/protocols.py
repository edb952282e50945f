"""The command ``ldpbayes protocols``."""

from ldpbayes.cli import options


def command(*, outputs: options.Shown):
    """List the protocols and survey designs that a collection file may name, with their parameters.

    Examples:

      ldpbayes protocols
    """
    from ldpbayes.pages.page import Column, Kind, Note, Page, Table
    from ldpbayes.protocols import describe_protocols

    columns = tuple(Column(key, key, "text") for key in ("protocol", "parameters", "description"))
    rows = tuple((x.name, x.stated, x.summary + _also(x.aliases)) for x in describe_protocols())
    table = Table("Protocols and survey designs", columns, rows)
    use = Note(Kind.METHOD, 'In a collection file write protocol = "NAME"; parameters go under [channels.parameters].')
    outputs.check()
    outputs.show(Page("Protocols", (table,), (use,), facts={"protocols": table.records()}))


def _also(aliases):
    """Return a sentence that names the aliases, if any; the British spellings are left out."""
    shown = [alias for alias in aliases if "optimised" not in alias]
    return f" Also named {', '.join(shown)}." if shown else ""
