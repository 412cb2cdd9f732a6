"""Damage done to the files of a sweep, and what whoever reads it then gets."""

import warnings
from pathlib import Path

import numpy as np
import xarray
from faults.damage import Fault, fault_in
from faults.digests import checkpoint_arrays, digest_of

from popsim.store import Checkpoints
from popsim.sweeps import OpenedSweep, open_sweep, verify_sweep
from popsim.training.steps.train_state import named_arrays


class SweepReader:
    """Reads all that a sweep offers, and knows what it has to be.

    **Arguments:**

    - `path`: a sweep that is sound, of which some cells have begun.
    """

    def __init__(self, path: Path):
        self.path = path
        opened = open_sweep(path)
        self._numbers = _numbers(opened)
        self._cells = opened.cells_in("finished", "stopped")
        self._models = {
            (number, step): _model(opened, number, step)
            for number in self._cells
            for step in Checkpoints(opened.folder.cell(number).checkpoints).steps()
        }

    def read(self) -> str:
        """Read all.

        **Returns:** "right"; "named" if what differs is NaN, or an earlier checkpoint, with a warning; or
        "WRONG" and how. Errors that name what they refuse pass.
        """
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            opened = open_sweep(self.path)
            numbers = _numbers(opened)
            models = {number: self._model(opened, number) for number in self._cells}
        said = " ".join(str(warning.message) for warning in warned)
        is_right = all(models.values()) and numbers.keys() == self._numbers.keys()
        for name, expected in self._numbers.items():
            axes = {axis: expected[axis] for axis in expected.dims if axis in expected.coords}
            found = numbers.get(name, expected * np.nan).reindex(axes)
            values, expected = found.values, expected.values
            differ = ~((values == expected) | (np.isnan(values) & np.isnan(expected)))
            if np.any(np.isfinite(values[differ])):
                return f"WRONG: other numbers in {name}"
            is_right = is_right and not differ.any()
        if is_right:
            return "right"
        told = said + " ".join(opened.problem_of(number) for number in self._cells)
        is_said = any(word in told for word in ("damaged", "missing", "must ", "is passed over"))
        return "named" if is_said else "WRONG: something is missing, and nothing is said"

    def _model(self, opened: OpenedSweep, number: int) -> bool:
        """Whether the last model of a cell is read; it may be an earlier one, which is said."""
        if opened.notes[number].state == "damaged":
            return False
        run = opened.run(number)
        arrays = {name: np.asarray(array) for name, array in named_arrays({"model": run.ensemble}).items()}
        if digest_of(arrays) != self._models[number, run.n_batches_trained]:
            raise AssertionError(f"the model of cell {number} is another")
        return run.n_batches_trained == max(step for cell, step in self._models if cell == number)

    def damaged(self, file: Path, fault: Fault) -> tuple[str, bool]:
        """Put a fault into a file, read and verify, and mend.

        **Returns:** what `read` says, or "refused" if it raises an error that names the file; and whether
        `verify_sweep` says anything.
        """
        with fault_in(file, fault):
            return self._verdict(file), self._is_verified(file)

    def _verdict(self, file: Path) -> str:
        try:
            return self.read()
        except ValueError as error:
            is_named = file.name in str(error) or str(file.parent) in str(error)
            return "refused" if is_named else f"WRONG: the error does not name {file}: {error}"
        except AssertionError as error:
            return f"WRONG: {error}"

    def _is_verified(self, file: Path) -> bool:
        try:
            return bool(verify_sweep(self.path))
        except ValueError as error:
            return file.name in str(error)


def _model(opened: OpenedSweep, number: int, step: int) -> str:
    arrays = checkpoint_arrays(Checkpoints(opened.folder.cell(number).checkpoints), step)
    return digest_of({name: array for name, array in arrays.items() if name.startswith("model.")})


def _numbers(opened: OpenedSweep) -> dict[str, xarray.DataArray]:
    """Return all numbers that are read of a sweep, by name."""
    summary, history = opened.summary(), opened.load()
    arrays = {str(name): history[name].load() for name in history.data_vars}
    arrays |= {"total_loss": opened.total_loss.load()}
    for name in summary.columns:
        if name not in ("state", "batches") and summary[name].dtype.kind in "iuf":
            arrays[str(name)] = xarray.DataArray(summary[name].to_numpy(), dims="row")
    return {name: array.astype(float) for name, array in arrays.items()}


def files_of(path: Path) -> list[Path]:
    """All files of a sweep that have a byte."""
    return sorted(file for file in path.rglob("*") if file.is_file() and file.stat().st_size)
