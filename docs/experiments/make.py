"""Run the code of the pages beside this one, and save the figures that they show.

`python docs/experiments/make.py FOLDER force_field` runs the code of force_field.md in FOLDER, which has the
runs that a page opens, prints what it prints, and saves its last figure to docs/images/experiments/.
"""

import argparse
import contextlib
import re
import time
from pathlib import Path

import matplotlib

PAGES = Path(__file__).parent
DOTS_PER_INCH = 200  # twice the resolution of a page


def page_code(page: Path) -> str:
    """Return the Python of a page as one script."""
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))


def main() -> None:
    """Draw the figures of some pages, or of all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="where to run, with the runs that pages open")
    parser.add_argument("pages", nargs="*", help="such as force_field; by default all")
    options = parser.parse_args()
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    from popsim.analysis.figures import figure_style

    images = PAGES.parent / "images" / "experiments"
    images.mkdir(parents=True, exist_ok=True)
    for name in options.pages or sorted(path.stem for path in PAGES.glob("*.md")):
        page, began = PAGES / f"{name}.md", time.perf_counter()
        with contextlib.chdir(options.folder), figure_style():
            exec(compile(page_code(page), str(page), "exec"), {})
            plt.gcf().savefig(images / f"{name}.png", dpi=DOTS_PER_INCH, metadata={"Software": None})
        print(f"{name}: {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
