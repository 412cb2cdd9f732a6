"""The folder of a sweep: its layout, the plan as `sweep.json` has it, and as users write it.

They write it as YAML, and axes and seeds also on the command line.
"""

import dataclasses
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from popsim._shared.checks import warn_caller
from popsim.experiments import AbstractExperiment, Recording
from popsim.experiments.registry import described_modules
from popsim.experiments.run_config import parse_grid, parse_settings, parse_values, read_entries
from popsim.experiments.settings import parse_setting, setting_types
from popsim.store import RunFolder
from popsim.store.identity import lock_holder
from popsim.store.run_folder import FolderPart, PlainFolder
from popsim.sweeps.sweep import NOT_AXES, SHARED_SETTINGS, Sweep

__all__ = ["SweepFolder", "describe_sweep", "parse_axes", "read_config", "read_seeds"]

KEPT = setting_types(Recording)
TYPES = {"seeds": str, "members_per_cell": int, "member_batch_size": int, **KEPT}
"""The types of the entries of a YAML file that are no settings."""
KEYS = ("experiment", "settings", "grid", *TYPES)


@dataclasses.dataclass(frozen=True)
class SweepFolder(PlainFolder):
    """The layout of a sweep on disk.

    - `sweep.json`: format and popsim version, identity, experiment, axes, seeds and their division into
        cells, and digests of what the user's modules define; written first;
    - `cells/NUMBER/`: the run of each cell, an ordinary run;
    - `failures/NUMBER.json`: why the last attempt at a cell failed;
    - `selections/NUMBER.json`: the last scores with which the members of a cell came to a selection;
    - `logs/`, `figures/`: what the jobs of SLURM print; the figures of the report.

    Each file of a cell is written only by the process that holds the lock of its run.
    """

    description = FolderPart("sweep.json")
    cells = FolderPart("cells")
    failures = FolderPart("failures")
    selections = FolderPart("selections")
    logs = FolderPart("logs")
    figures = FolderPart("figures")

    def cell(self, number: int) -> RunFolder:
        """Return the folder of the run of a cell."""
        return RunFolder(self.cells / f"{number:06d}")

    def holder(self, number: int) -> str | None:
        """Return the process that trains a cell, such as "process 123 on 'host'"; None if there is none."""
        return lock_holder(self.cell(number).path)

    def failure(self, number: int) -> Path:
        """Return the file that says why the last attempt at a cell failed."""
        return self.failures / f"{number:06d}.json"

    def selection(self, number: int) -> Path:
        """Return the file of the scores with which the members of a cell came to a selection."""
        return self.selections / f"{number:06d}.json"

    @property
    def is_sweep(self) -> bool:
        """Whether there is a sweep in the folder, also if its `sweep.json` is lost or something else."""
        is_run = os.path.lexists(RunFolder(self.path).description)
        return os.path.lexists(self.description) or (self.cells.is_dir() and not is_run)


def describe_sweep(sweep: Sweep) -> dict[str, Any]:
    """Return what identifies a sweep, as JSON values."""
    return {
        "experiment": sweep.experiment.name,
        **named_modules(sweep),
        "settings": dataclasses.asdict(sweep.experiment),
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
    found = []
    for name in dict.fromkeys([described["module"], *described.get("network_modules", ())]):
        file = getattr(sys.modules.get(name), "__file__", None)
        if name == "__main__" or file is None:
            is_experiment = name == type(sweep.experiment).__module__
            raise ValueError(
                f"the {'experiment' if is_experiment else 'network of'} {sweep.experiment.name} must be in a "
                f"module, which the processes of the cells import, got {name}."
            )
        if not name.startswith("popsim."):
            depth = name.count(".") + (Path(file).name == "__init__.py")
            found.append((name, Path(file).resolve().parents[depth]))
    return found


def read_seeds(text: str) -> range:
    """Return the seeds that a user wrote: "0:20" leaves out 20; "7" is one, with a warning."""
    if not (match := re.fullmatch(r"([0-9]{1,10})(?::([0-9]{1,10}))?", text.strip())):
        raise ValueError(
            f"`seeds` must be a range such as 0:20, the seeds 0 to 19, or one number, got {text!r:.100}."
        )
    first = int(match[1])
    end = first + 1 if match[2] is None else int(match[2])
    if end <= first:
        raise ValueError(f"`seeds` must end after they begin, got {text!r}.")
    if match[2] is None and first > 1:
        warn_caller(
            f"`seeds` {first} is one network, that of seed {first}: for {first} networks, say 0:{first}."
        )
    return range(first, end)


def parse_axes(kind: type[AbstractExperiment], texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return the axes in texts such as "learning-rate=1e-3,3e-3" or "vision-noise=0.002 0.02,0.004 0.04"."""
    axes: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        words = [value.strip() for value in values.split(",")]
        if not all(words):
            raise ValueError(f"`grid` must be such as learning-rate=1e-3,3e-3, got {text!r:.100}.")
        name = name.strip().lstrip("-").replace("-", "_")
        if name in axes:
            raise ValueError(f"`grid` must have each axis once, got {name.replace('_', '-')} twice.")
        axes[name] = parse_values(kind, name, [None if word == "None" else word for word in words])
    return axes


def read_config(path: Path) -> Sweep:
    """Read a sweep from YAML, of which only `experiment` must be given.

    Values are taken as they are written, and parsed as on the command line: `1e-3` is a number, and neither
    `no` nor `20:40` is what some versions of YAML take it for.
    """
    content, kind = read_entries(path, KEYS)
    try:
        settings = parse_settings(kind, content.get("settings"))
        if misplaced := next((name for name in NOT_AXES if name in {*settings} - {*SHARED_SETTINGS}), None):
            raise ValueError(f"`settings` must not have {misplaced!r}: {NOT_AXES[misplaced]}.")
        axes = parse_grid(kind, content.get("grid"))
        if twice := sorted({*settings} & {*axes}):
            raise ValueError(
                f"`settings` must have none of the settings in `grid`, got {twice[0]!r} in both."
            )
        entries = {
            name: parse_setting(name, content[name], type_of_entry)
            for name, type_of_entry in TYPES.items()
            if content.get(name) is not None
        }
        experiment = kind(**settings)
        seeds = read_seeds(entries.pop("seeds", f"0:{experiment.n_members}"))
        kept = {name: entries.pop(name) for name in KEPT if name in entries}
        return Sweep(experiment, axes, seeds, **entries, recording=Recording(**kept))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
