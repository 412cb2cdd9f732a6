"""Draw the pictures of the gallery, and write its page.

From the root of a checkout, in a folder in which `runs/center-out-0` and `runs/arm26` are, such as after

    popsim train center-out
    popsim train center-out --plant arm26 --members 3 --out runs/arm26

`python docs/gallery/make.py FOLDER` runs each script beside this one there, saves what it drew, and writes
README.md.
"""

import argparse
import ast
import contextlib
import inspect
import io
import runpy
from pathlib import Path

import matplotlib

GALLERY = Path(__file__).parent
DOTS_PER_INCH = 220

_TOP = """# Gallery

What `popsim.analysis.figures` draws; each title links to the script that drew the picture. The scripts look
at `runs/center-out-0`, which `popsim train center-out` makes, and at `runs/arm26`, of
`popsim train center-out --plant arm26 --members 3 --out runs/arm26`. They are run in popsim's style, that of
`matplotlib.pyplot.style.use(popsim.analysis.figures.STYLE_SHEET)`, by `docs/gallery/make.py`, which writes
this page.
"""

_ENTRY = """## [{function}]({concept}.py)

{line}

![{function}](images/{concept}.png)
"""


def scripts() -> dict[str, Path]:
    """The script for each concept, by name."""
    return {path.stem: path for path in sorted(GALLERY.glob("*.py")) if path != Path(__file__)}


def drawing_functions() -> dict[str, str]:
    """The public functions that draw or animate, with the first line of the docstring of each."""
    from popsim.analysis import figures

    named = {name: each for name, each in vars(figures).items() if name.startswith(("draw_", "animate_"))}
    return {name: (inspect.getdoc(each) or "").partition("\n")[0] for name, each in sorted(named.items())}


def shown_by(concept: str) -> str:
    """The function that a script is about: that of its name, or of a longer name that begins with one.

    `state_space.py` and `state_space_3d.py` show `draw_state_space`, and `weight_matrix_animation.py` shows
    `animate_weight_matrix`.

    **Raises:** `ValueError` if there is none.
    """
    about = {}
    for name in drawing_functions():
        verb, _, shown = name.partition("_")
        about[shown if verb == "draw" else f"{shown}_animation"] = name
    fitting = [name for name in about if concept == name or concept.startswith(f"{name}_")]
    if not fitting:
        raise ValueError(f"{concept}.py must be named after a function that draws, one of {sorted(about)}.")
    return about[max(fitting, key=len)]


def run_script(script: Path, folder: Path) -> "matplotlib.figure.Figure":
    """Run a script in `folder`, in popsim's style; the figure that it made last."""
    import matplotlib.pyplot as plt

    from popsim.analysis.figures import figure_style

    plt.close("all")
    with contextlib.chdir(folder), figure_style():
        runpy.run_path(str(script.resolve()), run_name="__main__")
    if not plt.get_fignums():
        raise ValueError(f"{script.name} must make a figure: it made none.")
    return plt.gcf()


def picture(figure: "matplotlib.figure.Figure") -> bytes:
    """A figure as a small PNG."""
    from popsim.analysis.figures import figure_style

    buffer = io.BytesIO()
    with figure_style():
        figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return buffer.getvalue()


def page() -> str:
    """The gallery: for each script its function, what it shows, and its picture."""
    summaries, entries = drawing_functions(), []
    for concept, script in scripts().items():
        function, about = shown_by(concept), ast.get_docstring(ast.parse(script.read_text()))
        line = " ".join(filter(None, [summaries[function], about]))
        entries.append(_ENTRY.format(function=function, concept=concept, line=line))
    return "\n".join([_TOP, *entries])


def main() -> None:
    """Draw all pictures or some, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="where runs/center-out-0 and runs/arm26 are")
    parser.add_argument("--only", nargs="+", metavar="CONCEPT", help="draw these only, such as hand_paths")
    options = parser.parse_args()
    matplotlib.use("agg")
    script_of, images = scripts(), GALLERY / "images"
    images.mkdir(exist_ok=True)
    for concept in options.only or script_of:
        content = picture(run_script(script_of[concept], options.folder))
        (images / f"{concept}.png").write_bytes(content)
        print(f"{concept}: {len(content) / 1000:.0f} kB")
    (GALLERY / "README.md").write_text(page())


if __name__ == "__main__":
    main()
