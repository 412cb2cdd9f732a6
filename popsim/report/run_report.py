"""The report of a run: what was trained, what came out, and how to go on with it."""

import inspect
import platform
from importlib.metadata import version
from pathlib import Path

from popsim.experiments.run import Run
from popsim.experiments.run_info import RunInfo, read_run_info
from popsim.report.drawn_figures import save_and_embed
from popsim.report.duration_text import duration_text
from popsim.report.html import Html, element, named_values, table, wide
from popsim.report.page import write_page
from popsim.report.report_folder import REPORT, check_report_folder, make_report_folder
from popsim.report.sections import SECTIONS
from popsim.report.written_report import WrittenReport
from popsim.version import __version__

_CODE = """import popsim

run = popsim.open_run({path})
run.summary  # the figures of merit, in SI units
run.history.total_loss  # (batch, member); run.history.loss has each term
run.history.trainables  # the weights over training batches, lazy
run.ensemble  # the trained networks, all members stacked
states = run.evaluate().states  # the validation trials: (member, trial, time, ...)
untrained = run.models(batch=-1)  # the networks before training"""


def report_run(run: Run, out: Path | None = None) -> WrittenReport:
    """Draw all figures of a finished run as PNG and PDF, and write report.html.

    **Arguments:**

    - `run`: the run, which is only read if `out` is another folder than its own.
    - `out`: the folder for report.html and figures/; None for that of the run.

    **Raises:** `ValueError` if the run is not finished, or `out` holds something else; `SaveError` if
    something cannot be written.
    """
    out = run.folder.path if out is None else out
    check_report_folder(out, REPORT, run=run.folder)
    results = run.results()
    info = read_run_info(run.folder.path)
    make_report_folder(out)
    body = [*_introduction(run, info), element("h2", "Results"), table(results, "Results")]
    figures: list[Path] = []
    for section in SECTIONS:
        if (drawn := section.draw(run)) is None:
            continue
        if taken := {path.stem for path in figures} & drawn.keys():
            raise ValueError(
                f"`SECTIONS` must have figures of different names, got {sorted(taken)[0]!r} again."
            )
        paths, shown = save_and_embed(drawn, out / run.folder.figures.name)
        figures += paths
        body += [element("h2", section.title), element("p", section.introduction), *shown]
    code = element("pre", element("code", _CODE.format(path=repr(str(run.folder.path)))))
    body += [element("h2", "Open this run in Python"), wide("Python code", code)]
    page = out / REPORT
    return WrittenReport(page, write_page(page, _title(run), body), figures, str(results))


def _title(run: Run) -> str:
    return f"{run.experiment.name}: {run.folder.path.resolve().name}"


def _introduction(run: Run, info: RunInfo) -> list[Html]:
    """What was trained, how and for how long."""
    own, about = run.experiment, inspect.getdoc(type(run.experiment)) or ""
    said = [
        element("p", " ".join(about.partition("\n\n")[0].split())),
        element(
            "p",
            f"{own.n_members} members, each trained for {own.n_batches} batches of {own.batch_size} "
            f"trials, all random numbers from seed {own.seed}{_time_trained(info)}.",
        ),
    ]
    if info.frozen:
        frozen = ", ".join(f"{member} (batch {batch})" for member, batch in info.frozen.items())
        note = f"Members that are frozen since their numbers were not finite: {frozen}."
        said.append(element("p", note, attributes={"class": "note"}))
    return [*said, element("h2", "What was trained"), _settings(info)]


def _time_trained(info: RunInfo) -> str:
    if info.losses is None:
        return ""
    return f"; the training took {duration_text(info.losses.seconds)}"


def _settings(info: RunInfo) -> Html:
    """The settings, those that are not the default in bold, and versions."""
    changed = info.changed or frozenset()
    values: dict[str, str] = {"experiment": str(info.experiment)}
    for name, text in info.in_force.items():
        values[name] = element("strong", text) if name in changed else text
    values["trained by"] = (
        f"popsim {info.description.get('popsim')}, run format {info.description.get('format')}"
    )
    values["figures by"] = (
        f"popsim {__version__}, JAX {version('jax')}, matplotlib {version('matplotlib')}, "
        f"Python {platform.python_version()}"
    )
    if info.changed is None:
        hint = "The experiment is not registered here: its defaults are not known."
    else:
        hint = "In bold: what is not the default." if changed else "All settings are the defaults."
    return Html(element("p", hint) + named_values("Settings and versions", values))
