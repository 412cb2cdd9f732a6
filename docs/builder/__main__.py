"""Build the site of documentation: `python docs/builder`; it is then at build/site/html/index.html.

The pages are those of docs/, some other documents of the repository, and generated ones: a page for each task
of the library, overviews of bodies, muscles, networks and rules, and the reference. Warnings end the build.
"""

import argparse
import json
import shutil
import tomllib
from collections.abc import Collection
from pathlib import Path

import matplotlib
import zensical
from library_files import library_nav, write_library
from name_tables import write_name_tables
from reference_files import reference_nav, write_reference
from source_files import DOCS, REPOSITORY, copy_sources

from popsim.tasks.library import TASKS

CONFIG = "zensical.json"  # read as YAML, of which JSON is a part


def main() -> None:
    """Build the site into a folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build" / "site", help="the folder")
    parser.add_argument(
        "--draw",
        nargs="*",
        choices=TASKS,
        metavar="TASK",
        help="draw and describe the trials of these tasks only, or of none, and two of each kind of part",
    )
    options = parser.parse_args()
    if options.out.exists() and any(options.out.iterdir()) and not (options.out / CONFIG).exists():
        parser.error(f"--out must be a new or empty folder, or that of another build, got {options.out}")
    build_site(options.out, options.draw)


def build_site(folder: Path, drawn: Collection[str] | None = None) -> None:
    """Write the sources of all pages into `folder`/docs, and the site into `folder`/html.

    **Arguments:**

    - `folder`: the folder, whose contents are replaced. It is that of a build from the first moment on, so
      that one which failed does not stop the next.
    - `drawn`: the tasks whose trials are drawn and described, by default all.
    """
    matplotlib.use("agg")
    config, docs = folder / CONFIG, folder / "docs"
    drawn = TASKS if drawn is None else drawn
    folder.mkdir(parents=True, exist_ok=True)
    config.touch()
    for name in ("docs", "html"):
        shutil.rmtree(folder / name, ignore_errors=True)
    docs.mkdir()
    print("listing the public names", flush=True)
    config.write_text(json.dumps(_configuration()))
    print("copying the pages of docs/", flush=True)
    copy_sources(docs)
    write_name_tables(docs)
    print(f"writing the pages of the library: {len(drawn)} of {len(TASKS)} tasks are drawn", flush=True)
    write_library(docs, drawn)
    print("writing the reference", flush=True)
    write_reference(docs)
    print(f"making {folder / 'html' / 'index.html'} of all", flush=True)
    zensical.build(str(config.resolve()), {"clean": True, "strict": True})


def _configuration() -> dict:
    """Return the configuration, with the generated pages in the navigation, for the folder of the build."""
    config = tomllib.loads((REPOSITORY / "zensical.toml").read_text())["project"]
    config |= {"docs_dir": "docs", "site_dir": "html"}
    for section in config["nav"]:
        if "Reference" in section:
            section["Reference"] = [*reference_nav()[:1], *library_nav(), *reference_nav()[1:]]
    python = config["plugins"]["mkdocstrings"]["handlers"]["python"]
    python["paths"] = [str(REPOSITORY)]
    python["options"]["extensions"] = [str(DOCS / "builder" / "docstrings.py")]
    return config


if __name__ == "__main__":
    main()
