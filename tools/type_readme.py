"""Check the types of the README's examples as those of a user's script, by mypy's strictest rules: `make lint` runs this."""

import pathlib
import re
import sys
import tempfile

from mypy import api

ROOT = pathlib.Path(__file__).parents[1]


def main() -> int:
    """Return mypy's exit status, and print what it says."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "script.py"
        script.write_text("\n".join(blocks))
        said, problems, status = api.run(
            ["--config-file", str(ROOT / "pyproject.toml"), "--strict", "--follow-imports", "silent", str(script)]
        )
    print(said, problems, sep="", end="")
    return status


if __name__ == "__main__":
    sys.exit(main())
