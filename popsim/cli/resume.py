"""`popsim resume RUN`: finish a run that was interrupted."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from popsim.cli.devices import training_devices
from popsim.cli.finish import finish
from popsim.experiments import devices_of_run, resume_run


@dataclasses.dataclass(frozen=True)
class Resume:
    """Finish a run that was interrupted: the result is the same, bit for bit."""

    path: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN", help="the folder of the run")]
    devices: int | None = None
    """over how many devices the networks are divided; by default as many as before, for the same bits"""
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """show no progress bar"""

    def run(self) -> None:
        """Train what is left, save, and print."""
        devices = training_devices(devices_of_run(self.path) if self.devices is None else self.devices)
        finish(self.path, lambda stop: resume_run(self.path, quiet=self.quiet, devices=devices, stop=stop))
