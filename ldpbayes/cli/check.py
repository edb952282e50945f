"""The command ``ldpbayes check``."""

import dataclasses

from ldpbayes.cli import options, settings
from ldpbayes.errors import ArgumentError

#: What fake reports could do.
FAKE = options.OptionGroup(share=None, question=None, channel=None)


def command(
    file,
    by=None,
    assignments=None,
    level=0.05,
    ci_prob=0.95,
    random_seed=0,
    fakes=False,
    *,
    fake=FAKE,
    table: options.TableOptions,
    outputs: options.Shown,
):
    """Test whether reports fit their protocol or survey design, without a prior.

    Exit status 0: they fit, or no test is possible; 1: they do not fit (the first line names the tests); 2: bad input.

    Examples:

      ldpbayes check example:nigeria --fakes

      ldpbayes check example:nigeria --fake-share 0.01,0.05

      ldpbayes check example:wada --fake-share 0.05 --channel A

      ldpbayes check example:nigeria_cells --page check.html

      ldpbayes check example:survey --by region
    """
    from ldpbayes.fitness import check
    from ldpbayes.robust.page import beside, fakes_table

    outputs.check()
    collection = options.read(file, by, settings.parsed(assignments, "check"), **table.settings)
    needed = (fakes_table(collection.single("fakes")),) if fakes else ()
    hull = _hull(collection, ci_prob, **fake)
    result = check(collection, level=level, random_seed=random_seed)
    content = outputs.page_of(result, title=collection.title or collection.id, collection=collection)
    content = dataclasses.replace(content, tables=(*content.tables, *needed))
    if hull is not None:
        content = beside(content, hull)
    outputs.show(content)
    return int(result.flagged)


def _hull(collection, ci_prob, share, question, channel):
    """Return the range of estimates under the shares of fakes that are stated; None where none are."""
    from ldpbayes.robust.contamination import contamination_hull

    if share is None:
        for name, value in (("question", question), ("channel", channel)):
            if value is not None:
                raise ArgumentError(f"{name} goes with fake-share, which states how many reports may be fake.")
        return None
    settings = {"share": options.levels(share, "share"), "channel": channel, "ci_prob": ci_prob}
    return contamination_hull(collection.single("fake-share"), question, **settings)
