"""`popsim train EXPERIMENT`: train an ensemble, save the run, print how well it does."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from popsim.cli.devices import training_devices
from popsim.cli.finish import finish
from popsim.experiments import (
    EXPERIMENTS,
    AbstractExperiment,
    Recording,
    devices_of_run,
    run_experiment,
    run_or_resume,
)
from popsim.experiments.recording import HELP
from popsim.store import RunFolder


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
        resume: tyro.conf.FlagCreatePairsOff[bool] = False
        """go on with the same run if it is there; one that is finished is only printed"""
        keep: Annotated[str, tyro.conf.arg(metavar="BATCHES", help=f"when to keep the weights: {HELP}")] = (
            "logged"
        )
        float16: tyro.conf.FlagCreatePairsOff[bool] = False
        """keep them with half the digits"""
        checkpoint_seconds: float = 60.0
        """after how many seconds a checkpoint is written; also at the end, and when told to stop"""
        devices: int | None = None
        """over how many devices the networks are divided; by default over all accelerators or cores"""
        quiet: tyro.conf.FlagCreatePairsOff[bool] = False
        """show no progress bar"""

        def run(self) -> None:
            """Train, save, and print."""
            if self.resume and self.overwrite:
                raise ValueError("`resume` and `overwrite` must not be given together: got both.")
            out = self.out or Path("runs") / f"{self.experiment.name}-{self.experiment.seed}"
            options: dict[str, Any] = {
                "quiet": self.quiet,
                "recording": Recording(self.keep, self.float16),
                "devices": training_devices(self._n_devices(out)),
                "checkpoint_seconds": self.checkpoint_seconds,
            }
            train = run_or_resume if self.resume else partial(run_experiment, overwrite=self.overwrite)
            finish(out, lambda stop: train(self.experiment, out, stop=stop, **options))

        def _n_devices(self, out: Path) -> int | None:
            """Those asked for; else, of a run that goes on, as many as before."""
            goes_on = self.resume and self.devices is None and RunFolder(out).description.exists()
            return devices_of_run(out) if goes_on else self.devices

    TrainExperiment.__doc__ = kind.__doc__
    return TrainExperiment
