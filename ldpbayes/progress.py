"""Progress on standard error, and loops that keep what they have finished when the user interrupts them."""


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
    if not shown:
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=len(items) if total is None else total)
        for item in items:
            yield item
            bar.advance(task, weight(item) if weight else 1)


def finished(results, least=1):
    """Return list(results); after Ctrl-C those that were finished, if there are at least ``least`` of them.

    Raises
    ------
    KeyboardInterrupt
        With fewer.
    """
    out = []
    try:
        for result in results:
            out.append(result)
    except KeyboardInterrupt:
        if len(out) < least:
            raise
    return out
