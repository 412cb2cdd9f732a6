"""Where a report may be written."""

from pathlib import Path

from popsim.report.page import is_page
from popsim.store import RunFolder
from popsim.store.whole_file import check_replaceable, saving

REPORT, COMPARISON = "report.html", "comparison.html"


def check_report_folder(path: Path, page: str, *, run: RunFolder | None = None) -> None:
    """Refuse a folder in which something else would be overwritten.

    **Arguments:**

    - `path`: the folder.
    - `page`: the name of the page that is to be written there.
    - `run`: the run whose own folder `path` may be; None for none.

    **Raises:** `ValueError` unless `path` does not exist, is empty, is the folder of `run`, or holds an
    earlier page of this name that popsim wrote; or if it holds another file of this name, or another run.
    """
    check_replaceable(path / page, is_page, kind="a report", overwrite=True)
    if run is not None and path.exists() and path.samefile(run.path):
        return
    if RunFolder(path).description.exists():
        raise ValueError(f"`out` must not be the folder of another run, got {path}.")
    if path.exists() and not path.is_dir():
        raise ValueError(f"`out` must be a folder, got {path}.")
    if path.is_dir() and not (path / page).exists() and any(path.iterdir()):
        raise ValueError(f"`out` must be an empty folder or hold a {page} of popsim, got {path}.")


def make_report_folder(path: Path) -> None:
    """Make the folder if there is none; `SaveError` if that cannot be done."""
    with saving(path):
        path.mkdir(parents=True, exist_ok=True)
