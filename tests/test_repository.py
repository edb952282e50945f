"""What stands around the package: addresses, workflows, owners and sources name what is there."""

import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import addresses  # noqa: E402

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_every_file_names_the_repository_by_one_constant():
    for path, (text, new) in addresses.texts(addresses.REPOSITORY).items():
        assert text == new, path
        assert addresses.REPOSITORY.split("/")[-2] in text, path


def test_another_address_reaches_every_file():
    for path, (text, new) in addresses.texts("https://codeberg.org/somebody/ldpbayes").items():
        assert "somebody" in new and new != text, path
        assert addresses.REPOSITORY.split("/")[-2] not in re.sub(r"placeholder.*", "", new), path


def test_no_file_keeps_the_placeholder_when_the_address_is_filled():
    """Of all that git tracks only tools/addresses.py may: another file would keep an address that leads nowhere."""
    placeholder = re.compile(rb"[/@]OWNER\b")
    filled = {path: new.encode() for path, (_, new) in addresses.texts("https://codeberg.org/somebody/ldpbayes").items()}
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, cwd=ROOT)
    if listed.returncode:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    assert set(filled) <= set(paths)
    left = {path.relative_to(ROOT) for path in paths if placeholder.search(filled.get(path) or path.read_bytes())}
    assert left <= {pathlib.Path("tools/addresses.py")}


def test_an_address_that_is_none_is_refused():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "addresses.py", "ldpbayes.org"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and "https://" in done.stderr


def test_links_of_the_readme_are_absolute_and_lead_to_files():
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) > 5
    for link in links:
        assert link.startswith(("https://", "#")), link
        if link.startswith(addresses.REPOSITORY):
            kind, branch, path = link.removeprefix(addresses.REPOSITORY + "/").split("/", 2)
            assert kind in ("blob", "raw", "tree") and branch == "main" and (ROOT / path.partition("#")[0]).exists(), link


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_there_is(path):
    text = path.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= targets
    script = (ROOT / "tools" / "release_check.sh").read_text()
    environments = set(re.search(r'known="([^"]+)"', script).group(1).split())
    for listed in re.findall(r"(?:ENVIRONMENTS|\{environment): ([\w. -]+)", text):
        if not listed.startswith("$"):
            assert set(listed.split()) <= environments, listed
    for index in ("twine", "pypa"):
        assert index not in text


def test_the_matrix_tries_every_environment_that_is_pinned():
    script = (ROOT / "tools" / "release_check.sh").read_text()
    environments = set(re.search(r'known="([^"]+)"', script).group(1).split())
    tried = set(re.findall(r"environment: ([\w.-]+)", (ROOT / ".github/workflows/tests.yml").read_text()))
    assert tried == environments - {"newest"}


def test_owners_name_paths_that_exist():
    lines = (ROOT / ".github" / "CODEOWNERS").read_text().splitlines()
    paths = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert not [path for path in paths if path != "*" and not (ROOT / path.strip("/")).exists()]


def test_notice_names_every_source_of_data():
    notice = set(re.findall(r"\w+", (ROOT / "NOTICE").read_text(encoding="utf-8")))
    files = [*(ROOT / "data").rglob("*.toml"), *(ROOT / "ldpbayes" / "examples").glob("*.toml")]
    assert len(files) > 20
    assert not [path.stem for path in files if path.stem not in notice]


def test_the_wheel_carries_licence_and_sources():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license-files"] == ["LICENSE", "NOTICE"]
    assert set(project["urls"]) == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
