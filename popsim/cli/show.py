"""`popsim show`: a finished run, looked at again."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from popsim.experiments import open_run
from popsim.experiments.info_table import size_text
from popsim.report import report_run


@dataclasses.dataclass(frozen=True)
class Show:
    """Print a run's table, draw all its figures, and write a report that opens in any browser."""

    path: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN", help="the folder of the run")]
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """where report.html and figures/ are written; by default into the run"""

    def run(self) -> None:
        """Print the table, and the paths of the figures and of the report."""
        report = report_run(open_run(self.path), self.out)
        print(report.table)
        for path in report.figures:
            print(path)
        print(f"{report.page} ({size_text(report.n_bytes)})")
