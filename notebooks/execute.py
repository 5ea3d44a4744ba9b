"""Executes the notebooks of this folder, and saves them with their new outputs.

    python notebooks/execute.py [NOTEBOOK.ipynb ...]

Give no name to execute all of them. Run it after a change of a notebook, or of what one shows, and
look at the outputs before you commit them. Tests execute the notebooks without saving them.
"""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
SECONDS = 300  # time limit of a cell, on a busy machine


def execute(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Execute a notebook in a folder; return it with its outputs.

    Raises:
        CellExecutionError: if a cell fails, such as one with an assertion.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
    )
    # The package of this clone, and no bar or warning that would differ in each execution.
    python_path = f"{HERE.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    client.execute(env={**os.environ, "PYTHONPATH": python_path, "PYTHONWARNINGS": "ignore"})
    return notebook


def main(names: list[str]) -> None:
    """Execute notebooks by name, or all, and save them."""
    for path in map(Path, names or sorted(map(str, HERE.glob("*.ipynb")))):
        notebook = execute(path, HERE)
        notebook.metadata = {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
        nbformat.write(notebook, path)
        print(path)


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv):
        sys.exit(print(__doc__))
    main(sys.argv[1:])
