"""What the commands print with: two consoles and one kind of table."""

import sys

from rich.console import Console
from rich.table import Table

#: Tables need the room even where output goes to a file or a pipe; labels may hold square brackets, so no markup.
out = Console(width=None if sys.stdout.isatty() else 140, markup=False)
err = Console(stderr=True, markup=False)


def new_table(title, left, right=(), last=()):
    """Return a table: columns aligned left, then columns of numbers aligned right, then a last one aligned left."""
    table = Table(title=title, title_justify="left")
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    for name in last:
        table.add_column(name)
    return table
