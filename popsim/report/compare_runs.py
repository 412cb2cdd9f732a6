"""Several runs beside each other: a table, figures, and a page."""

from collections.abc import Sequence
from pathlib import Path

from popsim.report.compared_runs import ComparedRun, open_compared_runs
from popsim.report.comparison_figures import draw_comparison
from popsim.report.comparison_table import results_table, settings_table
from popsim.report.drawn_figures import save_and_embed
from popsim.report.html import Html, element, named_values, table
from popsim.report.page import write_page
from popsim.report.report_folder import COMPARISON, check_report_folder, make_report_folder
from popsim.report.written_report import WrittenReport


def compare_runs(paths: Sequence[Path], out: Path, *, names: Sequence[str] | None = None) -> WrittenReport:
    """Draw runs of one task on top of each other, and write comparison.html.

    Runs that are not finished are compared as far as they are: they have losses, and no figures of merit.

    **Arguments:**

    - `paths`: the folders of the runs, which are only read.
    - `out`: the folder for comparison.html and figures/.
    - `names`: what the runs are called; None for the names of their folders.

    **Raises:** `ValueError` if the runs cannot be compared, see `open_compared_runs`, or `out` holds
    something else; `SaveError` if something cannot be written.
    """
    check_report_folder(out, COMPARISON)
    runs = open_compared_runs(paths, names)
    settings, results = settings_table(runs), results_table(runs)
    make_report_folder(out)
    figures, shown = save_and_embed(draw_comparison(runs), out / "figures")
    body = [
        element("h2", "Runs"),
        named_values("Runs", {each.name: f"{each.run.folder.path}: {each.state}" for each in runs}),
        *_notes(runs),
        element("h2", "Settings that differ"),
        table(settings, "Settings that differ") if settings.rows else element("p", "None."),
        element("h2", "Results"),
        table(results, "Results"),
        element("h2", "Figures"),
        *shown,
    ]
    page = out / COMPARISON
    n_bytes = write_page(page, f"Comparison of {len(runs)} runs", body)
    said = [str(settings)] if settings.rows else ["all settings are the same"]
    said += ["", str(results), *(f"{each.name}: {each.state}" for each in runs if not each.run.is_finished)]
    return WrittenReport(page, n_bytes, figures, "\n".join(said))


def _notes(runs: Sequence[ComparedRun]) -> list[Html]:
    return [
        element(
            "p",
            f"{each.name} is {each.state}; all else is of its last checkpoint.",
            attributes={"class": "note"},
        )
        for each in runs
        if not each.run.is_finished
    ]
