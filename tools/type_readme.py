"""Check the types of the README's examples as those of a user's script, by mypy's strictest rules.

`make lint` runs it on the checkout; tools/check_wheel.sh runs a copy of it, with the README's path, on an installed wheel.
"""

import pathlib
import re
import sys
import tempfile

from mypy import api

ROOT = pathlib.Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    """Return mypy's exit status, and print what it says."""
    readme = pathlib.Path(arguments[0]) if arguments else ROOT / "README.md"
    settings = [] if arguments else ["--config-file", str(ROOT / "pyproject.toml")]
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text(), re.S)
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "script.py"
        script.write_text("\n".join(blocks))
        said, problems, status = api.run(
            [*settings, "--strict", "--ignore-missing-imports", "--follow-imports", "silent", str(script)]
        )
    print(said, problems, sep="", end="")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
