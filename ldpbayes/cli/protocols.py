"""The command ``ldpbayes protocols``."""

from ldpbayes.cli import options
from ldpbayes.pages.page import Column, Kind, Note, Page, Table


def command(*, outputs: options.Shown):
    """List the protocols and survey designs that a collection file may name, with their parameters.

    Examples:

      ldpbayes protocols
    """
    from ldpbayes.protocols import describe_protocols

    columns = (
        Column("protocol", "protocol", "text"),
        Column("parameters", "parameters", "text"),
        Column("description", "what it is", "text"),
    )
    rows = tuple((x.name, x.stated, x.summary + _also(x.aliases)) for x in describe_protocols())
    use = Note(Kind.METHOD, 'In a collection file write protocol = "NAME"; parameters go under [channels.parameters].')
    facts = {"protocols": [dict(zip(("protocol", "parameters", "description"), row, strict=True)) for row in rows]}
    outputs.check()
    outputs.show(Page("Protocols", (Table("Protocols and survey designs", columns, rows),), (use,), facts=facts))


def _also(aliases):
    """Return a sentence that names the aliases, if any; the British spellings are left out."""
    shown = [alias for alias in aliases if "optimised" not in alias]
    return f" Also named {', '.join(shown)}." if shown else ""
