"""`popsim train EXPERIMENT`: train an ensemble, save the run, print how well it does."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from popsim.cli.devices import training_devices
from popsim.experiments import EXPERIMENTS, AbstractExperiment, run_experiment


@dataclasses.dataclass(frozen=True)
class Train:
    """Train an ensemble: `popsim train EXPERIMENT --help` lists the settings of an experiment."""

    experiment: Annotated[
        tyro.conf.Positional[Literal[tuple(EXPERIMENTS)]],  # pyright: ignore[reportInvalidTypeForm]
        tyro.conf.arg(metavar="EXPERIMENT", help="what to train: " + ", ".join(EXPERIMENTS)),
    ]


def train_command(kind: type[AbstractExperiment]) -> type:
    """The command that trains one kind of experiment, as a dataclass for tyro."""

    @dataclasses.dataclass(frozen=True)
    class TrainExperiment:
        experiment: kind  # pyright: ignore[reportInvalidTypeForm]
        """the settings of the experiment"""

        out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
        """the folder of the run; by default runs/EXPERIMENT-SEED"""
        overwrite: tyro.conf.FlagCreatePairsOff[bool] = False
        """replace a run that is there"""
        devices: int | None = None
        """over how many devices the networks are divided; by default over all accelerators or cores"""
        quiet: tyro.conf.FlagCreatePairsOff[bool] = False
        """show no progress bar"""

        def run(self) -> None:
            """Train, save, and print."""
            experiment = self.experiment
            devices = training_devices(self.devices)
            out = self.out or Path("runs") / f"{experiment.name}-{experiment.seed}"
            options = {"overwrite": self.overwrite, "quiet": self.quiet, "devices": devices}
            run = run_experiment(experiment, out, **options)
            print(experiment.table(run.summary))
            print(f"run: {run.folder.path}")
            for path in sorted(run.folder.figures.glob("*.png")):
                print(path)

    TrainExperiment.__doc__ = kind.__doc__
    return TrainExperiment
