"""Write what the examples of a page print: each block of Python is run, and the block of text behind it holds its output.

``python tools/write_outputs.py docs/protocols/*.md`` mends pages; a test holds the site to what its blocks print.
"""

import contextlib
import io
import pathlib
import sys
import warnings

from blocks import BLOCK  # beside this script


def written(page: str) -> str:
    """Return the text of a page, with the outputs of all blocks that print something."""
    namespace: dict = {}

    def run(found):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(found[1], namespace)
        shown = f"\n```text\n{printed.getvalue()}```\n" if printed.getvalue() else ""
        return f"```python\n{found[1]}```\n{shown}"

    return BLOCK.sub(run, page)


if __name__ == "__main__":
    for path in map(pathlib.Path, sys.argv[1:]):
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
