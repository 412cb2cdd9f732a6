"""Run the tutorials beside this script, and write the page and the notebook of each.

Each tutorial is a script with a cell after each `# %%`, which Jupyter, VS Code and others open as a notebook
with the help of jupytext. From the root of a checkout, with the extra `notebooks`,

    python docs/tutorials/make.py

runs all of them in new kernels, each in a folder of its own, or those that are named, and writes NAME.md, its
pictures in images/, and NAME.ipynb, the notebook without results. `--only-notebooks` writes the last alone.
"""

import argparse
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import jupytext
import nbformat

TUTORIALS = Path(__file__).resolve().parent
IMPORTED = TUTORIALS.parents[1] / ".path"  # holds popsim, as it is in this checkout
SECONDS = 1800  # of a cell on a machine with much else to do
WARNING = re.compile(r"^.*(?<!\bTqdm)Warning: .*$", re.MULTILINE)  # tqdm's says that there are no widgets

TEMPLATE = """
{%- extends 'markdown/index.md.j2' -%}
{% block stream %}
```text
{{ output.text.rstrip() }}
```
{% endblock stream %}
{% block data_text scoped %}
```text
{{ output.data['text/plain'].rstrip() }}
```
{% endblock data_text %}
{% block data_html scoped %}
{{ output.data['text/html'] | trim }}
{% endblock data_html %}
{% block data_png scoped %}
![{{ cell.metadata['alt'] }}]({{ output.metadata.filenames['image/png'] }})
{% endblock data_png %}
"""


def scripts() -> dict[str, Path]:
    """Return the script of each tutorial, by name."""
    return {path.stem: path for path in sorted(TUTORIALS.glob("*.py")) if path != Path(__file__)}


def read_notebook(script: Path) -> Any:
    """Return a tutorial as a notebook, without results; the same each time."""
    notebook = jupytext.read(script)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
    return notebook


def notebook_text(script: Path) -> str:
    """Return the file of the notebook of a tutorial."""
    return nbformat.writes(read_notebook(script)) + "\n"


def run_notebook(notebook: Any, folder: Path) -> None:
    """Run all cells of a notebook in a folder, and put the results into it.

    What cells write to standard error, such as bars, is left out.

    **Raises:** `ValueError` if a cell warns; the error of nbclient if one fails.
    """
    from nbclient import NotebookClient

    client = NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(folder)}})
    path = os.pathsep.join([str(IMPORTED), os.environ.get("PYTHONPATH", "")])
    client.execute(env=os.environ | {"PYTHONPATH": path, "TMPDIR": str(folder)})
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        errors = "".join(output.text for output in outputs if output.get("name") == "stderr")
        if warned := WARNING.search(errors):
            raise ValueError(f"a tutorial must run without a warning, got {warned[0]} of {cell.source!r}.")
        if outputs:
            cell.outputs = _joined([output for output in outputs if output.get("name") != "stderr"])
            for output in cell.outputs:
                if "<script" in output.get("data", {}).get("text/html", ""):
                    del output.data["text/html"]  # what treescope draws, where it is installed
                _remove_folder(output, folder)


def _joined(outputs: list[Any]) -> list[Any]:
    """Join what a cell prints, which arrives in pieces."""
    joined: list[Any] = []
    for output in outputs:
        if joined and output.get("name") == joined[-1].get("name") == "stdout":
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _remove_folder(output: Any, folder: Path) -> None:
    """Shorten the paths in a result to what is below the folder, or below a temporary one in it."""
    below = re.compile(rf"{re.escape(str(folder))}/(tmp\w+/)?")
    for holder in (output, output.get("data", {})):
        for kind in ("text", "text/plain", "text/html"):
            if kind in holder:
                holder[kind] = below.sub("", holder[kind])


def write_page(name: str, notebook: Any) -> None:
    """Write the page of a notebook that has run, and its pictures in place of earlier ones."""
    from nbconvert import MarkdownExporter

    exporter = MarkdownExporter(raw_template=TEMPLATE)
    resources = {"output_files_dir": "", "unique_key": name}
    text, resources = exporter.from_notebook_node(notebook, resources=resources)
    images = TUTORIALS / "images"
    images.mkdir(exist_ok=True)
    for old in images.glob(f"{name}_*.png"):
        old.unlink()
    for number, (file, content) in enumerate(resources["outputs"].items(), 1):
        image = f"{name}_{number}.png"
        text = text.replace(f"]({file})", f"](images/{image})")
        (images / image).write_bytes(content)
    (TUTORIALS / f"{name}.md").write_text(_without_gaps(text))


def _without_gaps(page: str) -> str:
    """Return a page with at most one empty line between its parts; code is left as it is."""
    kept = re.sub(r"(```.*?```)|\n{3,}", lambda found: found[1] or "\n\n", page, flags=re.DOTALL)
    return kept.strip() + "\n"


def main() -> None:
    """Write the pages and notebooks of some tutorials, or of all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="such as first_population; by default all")
    parser.add_argument("--only-notebooks", action="store_true", help="run nothing")
    options = parser.parse_args()
    script_of = scripts()
    for name in options.names or script_of:
        (TUTORIALS / f"{name}.ipynb").write_text(notebook_text(script_of[name]))
        if options.only_notebooks:
            continue
        notebook, began = read_notebook(script_of[name]), time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            run_notebook(notebook, Path(folder))
        write_page(name, notebook)
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
