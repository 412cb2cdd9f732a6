"""The folder of a sweep: its layout, its description, and the modules that make its experiment known."""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from popsim._shared.text_checks import check_path
from popsim._shared.user_code import code_digest, different_names, python_of
from popsim.experiments.registry import describe_experiment, described_modules
from popsim.experiments.run_options import CODE
from popsim.store import RunFolder
from popsim.store.files import make_folder, saving
from popsim.store.identity import lock_holder
from popsim.store.json_files import read_json, read_sealed_json, write_json
from popsim.store.run_folder import FolderPart, PlainFolder
from popsim.sweeps.sweep import Sweep

__all__ = ["CellFolder", "SweepFolder", "describe_sweep", "modules_of", "named_modules"]

SWEEP_FORMAT = 1
"""The format of `sweep.json`."""


@dataclasses.dataclass(frozen=True)
class CellFolder(RunFolder):
    """The layout of a cell: an ordinary run, and `cell.json`, its note, from which the sweep is opened."""

    note = FolderPart("cell.json")

    @property
    def is_started(self) -> bool:
        """Whether there is anything of a run or its training."""
        files = (self.description, self.training, self.summary, self.note)
        return any(map(os.path.lexists, files)) or bool(self.existing_training_files())


@dataclasses.dataclass(frozen=True)
class SweepFolder(PlainFolder):
    """The layout of a sweep on disk.

    - `sweep.json`: format and popsim version, identity, experiment, axes, seeds and their division into
        cells; written first;
    - `sweep.yaml`: the same as a configuration for `popsim sweep --config`;
    - `cells/NUMBER/`: the run of each cell, see `CellFolder`;
    - `failures/NUMBER.json`: why the last attempt at a cell failed;
    - `selections/NUMBER.json`: the last scores by which the members of a population selected, by the number
        of its first cell;
    - `code/`: a file for each state of the user's modules with which a cell began: digests of what they
        define;
    - `logs/`: what the jobs of SLURM print;
    - `figures/`: of the report.

    Each file of a cell is written only by the process that holds the lock of its run.
    """

    description = FolderPart("sweep.json")
    config = FolderPart("sweep.yaml")
    cells = FolderPart("cells")
    failures = FolderPart("failures")
    selections = FolderPart("selections")
    codes = FolderPart("code")
    logs = FolderPart("logs")
    figures = FolderPart("figures")

    def cell(self, number: int) -> CellFolder:
        """Return the folder of the run of a cell."""
        return CellFolder(self.cells / f"{number:06d}")

    def holder(self, number: int) -> str | None:
        """Return the process that trains a cell, such as "process 123 on 'host'"; None if there is none."""
        return lock_holder(self.cell(number).path)

    def failure(self, number: int) -> Path:
        """Return the file that says why a cell failed."""
        return self.failures / f"{number:06d}.json"

    def failure_text(self, number: int) -> str:
        """Return why the last attempt at a cell failed; empty if none did."""
        failure = self.failure(number)
        if not failure.exists():
            return ""
        try:
            record = read_json(failure)
            return f"failed on {record['host']}: {record['error']}"
        except (ValueError, LookupError, TypeError):
            return "failed"

    def note_code(self, code: Mapping[str, str]) -> list[str]:
        """Note the user's code with which a cell begins, and return what differs from that of others."""
        digest = code_digest(code)
        if not digest:
            return []
        with saving(self.path):
            make_folder(self.codes)
        path = self.codes / f"{digest}.json"
        if not path.exists():
            write_json(path, code)
        others = [read_json(other) for other in sorted(self.codes.glob("*.json")) if other != path]
        return next(filter(None, (different_names(other, code) for other in others)), [])

    def cells_by_code(self, n_cells: int) -> dict[str, list[int]]:
        """Return the cells by the digest of the user's code that they began with; empty if that is one."""
        if len([*self.codes.glob("*.json")]) < 2:
            return {}
        cells: dict[str, list[int]] = {}
        for number in range(n_cells):
            with contextlib.suppress(ValueError, OSError):
                digest = read_json(self.cell(number).description).get(CODE)
                cells.setdefault(str(digest), []).append(number)
        # Of one version of Python, there is more than one.
        return cells if len(cells) > len({*map(python_of, cells)}) else {}

    def selection(self, population: range) -> Path:
        """Return the file of the scores by which the members of some cells selected among one another."""
        return self.selections / f"{population[0]:06d}.json"

    @property
    def is_sweep(self) -> bool:
        """Whether there is a sweep in the folder, also if its `sweep.json` is lost or something else."""
        is_run = os.path.lexists(RunFolder(self.path).description)
        return os.path.lexists(self.description) or (self.cells.is_dir() and not is_run)

    def read_plain(self) -> dict[str, Any]:
        """Read the description, without rebuilding the experiment; errors as `open_sweep`."""
        check_path("path", self.path)
        if not self.description.exists():
            raise ValueError(f"`path` must be the folder of a sweep, got {self.path}: it has no sweep.json.")
        return read_sealed_json(self.description, SWEEP_FORMAT)


def describe_sweep(sweep: Sweep) -> dict[str, Any]:
    """Return what identifies a sweep, as JSON values."""
    described = describe_experiment(sweep.experiment)
    return {
        "experiment": described["experiment"],
        **named_modules(sweep),
        "settings": described["settings"],
        "axes": {name: list(values) for name, values in sweep.axes.items()},
        "seeds": [sweep.seeds.start, sweep.seeds.stop],
        "members_per_cell": sweep.members_per_cell,
        "member_batch_size": sweep.member_batch_size,
        "recording": dataclasses.asdict(sweep.recording),
    }


def named_modules(sweep: Sweep) -> dict[str, Any]:
    """Return the modules that make a sweep known, as its description names them."""
    return described_modules(sweep.experiment, sweep.axes.get("network", ()))


def modules_of(sweep: Sweep) -> list[tuple[str, Path]]:
    """Return the modules of the user's own, each with the folder in which it is found."""
    described = named_modules(sweep)
    names = dict.fromkeys([described["module"], *described.get("network_modules", ())])
    return [(name, _folder_of(name, sweep)) for name in names if not name.startswith("popsim.")]


def _folder_of(name: str, sweep: Sweep) -> Path:
    file = getattr(sys.modules.get(name), "__file__", None)
    if name == "__main__" or file is None:
        is_experiment = name == type(sweep.experiment).__module__
        raise ValueError(
            f"the {'experiment' if is_experiment else 'network of'} {sweep.experiment.name} must be in a "
            f"module, which the processes of the cells import, got {name}."
        )
    depth = name.count(".") + (Path(file).name == "__init__.py")
    return Path(file).resolve().parents[depth]
