"""The address of the repository: one constant, which every file that names it follows.

    python tools/addresses.py                                    # write REPOSITORY into every file that names it
    python tools/addresses.py --check                            # exit status 1, and names, where a file says another
    python tools/addresses.py https://github.com/owner/ldpbayes  # change the constant, and write it

OWNER is a placeholder until the repository has a public home.
"""

import pathlib
import re
import sys

#: Where the repository is read.
REPOSITORY = "https://github.com/OWNER/ldpbayes"

ROOT = pathlib.Path(__file__).parents[1]
#: Files that name the repository by its address.
ADDRESSED = ("README.md", "pyproject.toml", "CITATION.cff", "docs/index.md", "docs/right-for-me.md")
#: An address of a repository, as these files write it: nothing else in them lies under /ldpbayes of a host.
ADDRESS = re.compile(r"https://[\w.-]+/[\w.-]+/ldpbayes\b")
#: The organization, whose teams CODEOWNERS names.
OWNERS, TEAM = pathlib.Path(".github/CODEOWNERS"), re.compile(r"@[\w.-]+(?=/)")


def texts(repository: str) -> dict[pathlib.Path, tuple[str, str]]:
    """Return (text, text with the address of the repository) of each file that names it."""
    owner = repository.rstrip("/").split("/")[-2]
    out = {}
    for name, pattern, new in [*((name, ADDRESS, repository) for name in ADDRESSED), (OWNERS, TEAM, f"@{owner}")]:
        text = (ROOT / name).read_text(encoding="utf-8")
        out[ROOT / name] = text, pattern.sub(new, text)
    return out


def main(arguments: list[str]) -> int:
    """Check or write the address; return the exit status."""
    repository = REPOSITORY
    if arguments and arguments[0] != "--check":
        repository = arguments[0].rstrip("/")
        if not ADDRESS.fullmatch(repository):
            print(f"The address must be https://HOST/OWNER/ldpbayes, got {repository}.", file=sys.stderr)
            return 2
        here = pathlib.Path(__file__)
        here.write_text(here.read_text().replace(f'REPOSITORY = "{REPOSITORY}"', f'REPOSITORY = "{repository}"'))
    other = {path: new for path, (text, new) in texts(repository).items() if text != new}
    if arguments == ["--check"]:
        for path in other:
            print(f"{path.relative_to(ROOT)} names another address than {REPOSITORY}.")
        return 1 if other else 0
    for path, new in other.items():
        path.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
