"""`popsim info`: what a run holds, how far it is, and whether its files are sound."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from popsim.experiments import info_table, read_run_info, verify_run
from popsim.store import DamagedError


@dataclasses.dataclass(frozen=True)
class Info:
    """Print what a run holds, finished or not, and how far it is."""

    path: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN", help="the folder of the run")]
    verify: tyro.conf.FlagCreatePairsOff[bool] = False
    """read all files and compare them with their checksums; exit code 2 if one is damaged"""

    def run(self) -> None:
        """Print the table and, if asked to, verify."""
        print(info_table(read_run_info(self.path)))
        if not self.verify:
            return
        damage = verify_run(self.path)
        print()
        if not damage:
            print("all files are as they were written")
            return
        for file, said in damage.items():
            print(f"DAMAGED: {file}: {said}")
        raise DamagedError(f"damaged in {self.path}: {', '.join(damage)}")
