"""The folder of a sweep: its layout, and its description."""

import dataclasses
from pathlib import Path
from typing import Any

from popsim._text_checks import as_word, check_path
from popsim.experiments import Recording
from popsim.experiments.registry import describe_experiment, rebuild_experiment
from popsim.store import CorruptDataError, MismatchError, RunFolder, read_json, read_sealed_json
from popsim.store.files import check_plain_file
from popsim.store.identity import is_run_id, lock_holder
from popsim.store.run_folder import import_option
from popsim.sweeps.sweep import Sweep

__all__ = ["SweepFolder"]

SWEEP_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class SweepFolder:
    """The layout of a sweep on disk.

    - `sweep.json`: format and popsim version, identity, experiment, axes and seeds; written first;
    - `sweep.yaml`: the same as a configuration for `popsim sweep --config`;
    - `cells/NUMBER/`: an ordinary run for each cell, see `RunFolder`, and in it `cell.json`, what the index
        holds of it;
    - `failures/NUMBER.json`: why the last attempt at a cell failed;
    - `selections/NUMBER/`: what the cells of a population offered one another, see `SharedPopulation`,
        by the number of the first of them;
    - `index.safetensors`: the state and the results of all cells, made again from them when it is missing.

    Each file of a cell is written only by the process that holds the lock of its run.
    """

    path: Path

    @property
    def description(self) -> Path:
        """`sweep.json`."""
        return self.path / "sweep.json"

    @property
    def config(self) -> Path:
        """`sweep.yaml`."""
        return self.path / "sweep.yaml"

    @property
    def cells(self) -> Path:
        """`cells/`."""
        return self.path / "cells"

    @property
    def index(self) -> Path:
        """`index.safetensors`."""
        return self.path / "index.safetensors"

    def cell(self, number: int) -> RunFolder:
        """Return the folder of the run of a cell."""
        return RunFolder(self.cells / f"{number:06d}")

    def holder(self, number: int) -> str | None:
        """Return the process that trains a cell, such as "process 123 on 'host'"; None if there is none."""
        return lock_holder(self.cell(number).path)

    def entry(self, number: int) -> Path:
        """Return the file with what the index holds of a cell."""
        return self.cell(number).path / "cell.json"

    def failure(self, number: int) -> Path:
        """Return the file that says why a cell failed."""
        return self.path / "failures" / f"{number:06d}.json"

    def selections(self, population: range) -> Path:
        """Return the folder in which the cells of a population select among one another."""
        return self.path / "selections" / f"{population[0]:06d}"

    @property
    def is_sweep(self) -> bool:
        """Whether there is a sweep in the folder."""
        return self.description.is_file()

    def command(self, verb: str, module: str | None = None) -> str:
        """Return a command on the sweep, such as "popsim resume sweeps/lr"."""
        return f"popsim {import_option(module)}{verb} {as_word(self.path)}"

    def read(self) -> tuple[dict[str, Any], Sweep]:
        """Read the description and rebuild the plan of the sweep.

        **Raises:** `ValueError` if there is no sweep, or its experiment is not registered; `MismatchError` if
        it has another format; `CorruptDataError` if it was changed.
        """
        check_path("path", self.path)
        if not self.description.exists():
            raise ValueError(f"`path` must be the folder of a sweep, got {self.path}: it has no sweep.json.")
        check_plain_file(self.description)
        found = read_json(self.description)
        if not isinstance(found, dict) or "format" not in found:
            raise CorruptDataError(f"{self.description} must be written by popsim; it is something else.")
        if found["format"] != SWEEP_FORMAT:
            raise MismatchError(
                f"{self.description} must have format {SWEEP_FORMAT}, got {found['format']!r}: "
                "use another popsim."
            )
        described = read_sealed_json(self.description)
        experiment = rebuild_experiment(described, self.description)
        try:
            axes = {str(name): tuple(map(_plain, values)) for name, values in described["axes"].items()}
            first, end = described["seeds"]
            sweep = Sweep(
                experiment,
                axes,
                range(first, end),
                described["members_per_cell"],
                described["member_batch_size"],
                Recording(**described["recording"]),
            )
            if not is_run_id(described["sweep_id"]):
                raise ValueError("its identity must be 32 hexadecimal digits.")
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CorruptDataError(f"{self.description} must describe a sweep: {error}") from None
        return described, sweep


def describe_sweep(sweep: Sweep) -> dict[str, Any]:
    """Return what identifies a sweep, as JSON values."""
    described = describe_experiment(sweep.experiment)
    return {
        "experiment": described["experiment"],
        "module": described["module"],
        "settings": described["settings"],
        "axes": {name: list(values) for name, values in sweep.axes.items()},
        "seeds": [sweep.seeds.start, sweep.seeds.stop],
        "members_per_cell": sweep.members_per_cell,
        "member_batch_size": sweep.member_batch_size,
        "recording": dataclasses.asdict(sweep.recording),
    }


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, list) else value
