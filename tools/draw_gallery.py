"""Draw the figures of docs/gallery.md: the code of each block, saved under the name of the image that follows it."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]


def main() -> None:
    """Run the blocks of the page in order, and save ``figure`` after each."""
    text, names = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8"), {}
    for code, path in re.findall(r"^```python\n(.*?)^```\n\n!\[[^]]*\]\(([^)]+)\)", text, re.S | re.M):
        exec(code, names)
        names["figure"].savefig(ROOT / "docs" / path, dpi=130)
        print(path)


if __name__ == "__main__":
    main()
