"""`popsim compare`: several runs beside each other."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from popsim.experiments.info_table import size_text
from popsim.report import compare_runs


@dataclasses.dataclass(frozen=True)
class Compare:
    """Print what differs between runs and what came out, draw them on top of each other, write a report."""

    paths: Annotated[
        tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN RUN ...", help="folders of runs")
    ]
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("comparison")
    """where comparison.html and figures/ are written"""
    names: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME NAME ...")] = None
    """what the runs are called; by default as their folders"""

    def run(self) -> None:
        """Print the tables, and the paths of the figures and of the report."""
        report = compare_runs(self.paths, self.out, names=self.names)
        print(report.table)
        for path in report.figures:
            print(path)
        print(f"{report.page} ({size_text(report.n_bytes)})")
