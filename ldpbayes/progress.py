"""Progress on standard error."""

from ldpbayes import checks


def track(items, description, total=None, *, shown, weight=None):
    """Yield items, behind a progress bar where ``shown``.

    Parameters
    ----------
    items : iterable
    description : str
    total : float, optional
        Where the bar ends; by default the number of items.
    shown : bool
    weight : callable, optional
        How far an item moves the bar; by default all the same.
    """
    if not checks.flag(shown, "progressbar"):
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=len(items) if total is None else total)
        for item in items:
            yield item
            bar.advance(task, weight(item) if weight else 1)
