"""`popsim show`: a finished run, looked at again."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from popsim.experiments import open_run
from popsim.experiments.run_experiment import save_figures


@dataclasses.dataclass(frozen=True)
class Show:
    """Print a run's table and draw all its figures again."""

    path: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN", help="the folder of the run")]

    def run(self) -> None:
        """Print the table and the paths of the figures."""
        run = open_run(self.path)
        print(run.experiment.table(run.summary))
        for path in save_figures(run):
            print(path)
