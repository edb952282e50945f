"""Check the types of examples as those of a user's script, by mypy's strictest rules.

`make lint` runs it on the README of the checkout; tools/check_wheel.sh runs a copy of it, with the README's path, on an
installed wheel. Of a page, blocks are one script; what stands for another thing in each example is defined again.
"""

import json
import pathlib
import re
import sys
import tempfile

from mypy import api

ROOT = pathlib.Path(__file__).parents[1]
#: Pages define functions without types, and a name again in each example.
OF_PAGES = ("--allow-redefinition-new", "--local-partial-types", "--allow-untyped-defs", "--allow-untyped-calls")


def script_of(page: pathlib.Path) -> str:
    """Return the Python of a Markdown page or a notebook."""
    if page.suffix != ".ipynb":
        return "\n".join(re.findall(r"^```(?:py|python)\n(.*?)^```", page.read_text(), re.S | re.M))
    cells = [cell["source"] for cell in json.loads(page.read_text())["cells"] if cell["cell_type"] == "code"]
    return "\n".join(line for cell in cells for line in "".join(cell).splitlines() if not line.startswith(("%", "!")))


def check(scripts: dict[str, str], *settings: str) -> tuple[str, int]:
    """Return what mypy says of scripts by their names, and its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, script in scripts.items():
            paths.append(pathlib.Path(folder) / f"{re.sub(r'[^0-9a-zA-Z]', '_', name)}.py")
            paths[-1].write_text(script)
        rules = ("--strict", "--ignore-missing-imports", "--follow-imports", "silent", *settings)
        said, problems, status = api.run([*rules, *map(str, paths)])
        return f"{said}{problems}".replace(f"{folder}/", ""), status


def main(arguments: list[str]) -> int:
    """Return mypy's exit status, and print what it says."""
    readme = pathlib.Path(arguments[0]) if arguments else ROOT / "README.md"
    said, status = check(
        {"README": script_of(readme)}, *([] if arguments else ["--config-file", str(ROOT / "pyproject.toml")])
    )
    print(said, end="")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
