"""The command ``ldpbayes protocols``."""

from ldpbayes.cli import options


def command(protocol_name=None, *, outputs: options.Shown):
    """List the protocols and survey designs, or say what one of them is.

    Examples:

      ldpbayes protocols

      ldpbayes protocols crosswise
    """
    from ldpbayes.protocols import describe_protocols
    from ldpbayes.protocols.registry import known_name

    designs = describe_protocols()
    chosen = None if protocol_name is None else known_name(protocol_name)
    outputs.check()
    outputs.show(_every(designs) if chosen is None else _page(next(x for x in designs if chosen in (x.name, *x.aliases))))


def _every(protocols):
    """Return the page of all protocols."""
    from ldpbayes.pages.page import Column, Kind, Note, Page, Table

    columns = tuple(Column(key, key, "text") for key in ("protocol", "parameters", "description"))
    rows = tuple((x.name, x.stated, x.summary + _also(x.aliases)) for x in protocols)
    table = Table("Protocols and survey designs", columns, rows)
    use = Note(Kind.METHOD, 'In a collection file write protocol = "NAME"; parameters go under [channels.parameters].')
    return Page("Protocols", (table,), (use,), facts={"protocols": table.records()})


def _page(protocol):
    """Return the page of one protocol: its parameters, and what is written about it."""
    from ldpbayes.pages.page import Column, Page, Table

    meanings, keys = protocol.meanings(), ("parameter", "default", "what it is")
    rows = [(p.name, "" if p.required else str(p.default), meanings.get(p.name, "")) for p in protocol.parameters]
    parameters = Table(protocol.name, tuple(Column(key, key, "text") for key in keys), tuple(rows))
    told = {"In a file, or with -p": protocol.stated} | protocol.sections()
    about = Table("", (Column("about", "about", "text"), Column("text", "", "text")), tuple(told.items()))
    facts = {"protocol": protocol.name, "parameters": parameters.records(), "aliases": list(protocol.aliases), "about": told}
    return Page(protocol.name, (parameters, about), facts=facts, summary=protocol.summary + _also(protocol.aliases))


def _also(aliases):
    """Return a sentence that names the aliases, if any; the British spellings are left out."""
    shown = [alias for alias in aliases if "optimised" not in alias]
    return f" Also named {', '.join(shown)}." if shown else ""
