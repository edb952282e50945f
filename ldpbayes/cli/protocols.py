"""The command ``ldpbayes protocols``."""

from ldpbayes.cli import options, printing
from ldpbayes.pages.page import Column, Kind, Note, Page, Table


def command(as_json: options.AsJSON = False):
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
    rows = tuple((name, parameters, _plain(text)) for name, parameters, text in describe_protocols())
    use = Note(Kind.METHOD, 'In a collection file write protocol = "NAME"; parameters go under [channels.parameters].')
    facts = {"protocols": [dict(zip(("protocol", "parameters", "description"), row, strict=True)) for row in rows]}
    printing.display(
        Page("Protocols", (Table("Protocols and survey designs", columns, rows),), (use,), facts=facts), as_json
    )


def _plain(text):
    """Return the first sentence of a docstring without its markup, as a description: "Return the …" becomes "The …"."""
    text = text.replace("``", "").replace("`", "")
    return f"The {text.removeprefix('Return the ')}" if text.startswith("Return the ") else text
