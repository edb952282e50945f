"""The notebooks run from start to end, and what is stored in them is clean."""

import base64
import pathlib
import shutil

import pytest
from naming import unknown_names
from tabulated import each_row

from ldpbayes.plots.base import WIDTH

nbformat = pytest.importorskip("nbformat")

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@each_row("path", NOTEBOOKS)
def test_stored_outputs_are_clean(path):
    """Executed in order without errors or warnings, with figures, small, and without a folder of the machine."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"]
    pictures = [base64.b64decode(o.data["image/png"]) for o in outputs if "image/png" in o.get("data", {})]
    assert pictures
    widths = [int.from_bytes(picture[16:20], "big") for picture in pictures]  # at 100 dots an inch
    assert max(widths) <= 100 * WIDTH + 11  # with its margin: a phone shows texts of nine points and more legibly
    assert path.stat().st_size < 500_000
    text = "".join(o.get("text", "") for o in outputs)
    assert not [word for word in ("site-packages", str(ROOT), str(pathlib.Path.home()) + "/") if word in text]


@each_row("path", NOTEBOOKS)
def test_what_a_notebook_names_is_there(path):
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    source = "\n".join(line for cell in cells for line in cell.splitlines() if not line.lstrip().startswith(("%", "!")))
    assert "ldpbayes" in source and not unknown_names(source)


@pytest.mark.notebook
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings(
    "default"
)  # the libraries that start the kernel warn; the kernel's own warnings are checked below
def test_notebook_runs(path, tmp_path):
    from nbclient import NotebookClient

    folder = tmp_path / "notebooks"
    folder.mkdir()
    for name in ("data", "studies"):
        shutil.copytree(ROOT / name, tmp_path / name)
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs
    # In a new clone the first that needs compiled code says so.
    said = [o.text for o in outputs if o.get("name") == "stderr"]
    assert not [text for text in said if not text.startswith("Compiling numerical functions, which are kept")]
