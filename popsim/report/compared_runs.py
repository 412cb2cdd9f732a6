"""The runs of a comparison."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from popsim.analysis.figures.style import COLORS
from popsim.experiments.result_table import ResultTable
from popsim.experiments.run import Run, open_run
from popsim.experiments.run_info import RunInfo, read_run_info
from popsim.task_description import innermost_task

LONGEST = 24


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """A run beside others.

    - `name`: what it is called there.
    - `run`, `info`: the run, and what it holds.
    - `results`: of a finished run; None for one that is not.
    - `color`: its own.
    """

    name: str
    run: Run
    info: RunInfo
    results: ResultTable | None
    color: str

    @property
    def short_name(self) -> str:
        """The name as text of a figure: not too long, and nothing in it has a meaning for matplotlib."""
        shown = "".join(mark if mark.isprintable() else "?" for mark in self.name)
        shown = shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"
        return shown.replace("\\", "/").replace("$", r"\$").replace("_", " _", shown.startswith("_"))

    @property
    def state(self) -> str:
        """Whether it is finished, and if not, how far it is."""
        if self.run.is_finished:
            return "finished"
        return f"not finished, {self.info.n_saved} of {self.info.n_batches} batches: it has no results yet"


def open_compared_runs(paths: Sequence[Path], names: Sequence[str] | None = None) -> list[ComparedRun]:
    """Open runs for a comparison.

    **Arguments:**

    - `paths`: their folders.
    - `names`: what they are called; None for the names of their folders, or their paths where two folders
        have one name.

    **Raises:** `ValueError` if there are fewer than two or more than there are colours; one is there twice,
    is no run, or has saved nothing yet; the names are not as many or not different; or the runs are of
    different tasks. `MismatchError` or `DamagedError` as `open_run`.
    """
    if not 2 <= len(paths) <= len(COLORS):
        raise ValueError(f"`runs` must be 2 to {len(COLORS)}, got {len(paths)}.")
    for path in paths:
        if [other.resolve() for other in paths].count(path.resolve()) > 1:
            raise ValueError(f"`runs` must be different runs, got {path} twice.")
    names = _names(paths) if names is None else names
    if len(names) != len(paths) or len(set(names)) != len(names) or not all(name.strip() for name in names):
        raise ValueError(
            f"`names` must be {len(paths)} different names, one for each run, got {list(names)}."
        )
    runs = [_open(*given) for given in zip(paths, names, COLORS, strict=False)]
    _check_one_task(runs)
    return runs


def _names(paths: Sequence[Path]) -> list[str]:
    names = [path.resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def _open(path: Path, name: str, color: str) -> ComparedRun:
    run, info = open_run(path), read_run_info(path)
    if not run.is_finished and not info.n_saved:
        raise ValueError(f"`runs` must have saved something to be compared: {path} has no checkpoint yet.")
    results = run.results() if run.is_finished else None
    return ComparedRun(name, run, info, results, color)


def _check_one_task(runs: Sequence[ComparedRun]) -> None:
    tasks = {each.name: type(innermost_task(each.run.task)).__name__ for each in runs}
    if len(set(tasks.values())) > 1:
        said = ", ".join(f"{task} ({name})" for name, task in tasks.items())
        raise ValueError(f"`runs` must be of one task, as losses of others do not compare: got {said}.")
