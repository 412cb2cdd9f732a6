"""Damage done to the files of a run, and what whoever reads it then gets."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from bit_flips import cut_short as cut_short
from bit_flips import flip_bit as flip_bit
from faults.digests import checkpoint_arrays, digest_of, history_arrays
from faults.trainings import SmallSum

from popsim.experiments import open_run
from popsim.store import Checkpoints
from popsim.training.steps.train_state import named_arrays

Fault = Callable[[bytes], bytes | None]


class Reader:
    """Reads all that a run offers, and knows what it has to be.

    **Arguments:**

    - `path`: a finished run, which is sound.
    - `build`: its experiment.
    """

    def __init__(self, path: Path, build: type = SmallSum):
        self.path, self._build = path, build
        self._checkpoints = Checkpoints(path / "checkpoints")
        self._saved = {step: self._model(step) for step in self._checkpoints.steps()}
        run = open_run(path, build=build)
        self._experiment, self._summary = run.experiment, run.summary
        self._history = digest_of(history_arrays(path / "history.zarr"))

    def _model(self, step: int) -> str:
        arrays = checkpoint_arrays(self._checkpoints, step)
        return digest_of({name: array for name, array in arrays.items() if name.startswith("model.")})

    def read(self) -> str:
        """Read all: "right", "fell back" to an earlier checkpoint with a warning, or "WRONG"."""
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            run = open_run(self.path, build=self._build)
            model = {name: np.asarray(array) for name, array in named_arrays({"model": run.ensemble}).items()}
            history = {name: array.load() for name, array in run.history.dataset.variables.items()}
        newest = max(self._saved)
        right = (
            run.experiment == self._experiment
            and run.summary == self._summary
            and digest_of(model) == self._saved.get(run.n_batches_trained)
            and len(history) > 0
            and digest_of(history_arrays(self.path / "history.zarr")) == self._history
        )
        fell_back = run.n_batches_trained != newest
        told = any(said in str(w.message) for w in warned for said in (" is passed over", " are missing"))
        if not right or (fell_back and not told):
            return "WRONG"
        return "fell back" if fell_back else "right"


def files_below(folder: Path) -> list[Path]:
    """All files of a run."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


@contextlib.contextmanager
def fault_in(path: Path, fault: Fault) -> Iterator[None]:
    """Put a fault into a file, and mend it at the end."""
    good = path.read_bytes()
    bad = fault(good)
    path.unlink() if bad is None else path.write_bytes(bad)
    try:
        yield
    finally:
        path.write_bytes(good)


def damaged(path: Path, fault: Fault, read: Callable[[], str]) -> str:
    """Put a fault into a file, read, and mend.

    **Returns:** what `read` says, "refused" if it raises an error that names the file, or "WRONG" and how.
    """
    with fault_in(path, fault):
        try:
            return read()
        except ValueError as error:
            named = path.name in str(error) or (path.name == "summary.json" and " resume " in str(error))
            return "refused" if named else f"WRONG: the error does not name {path}: {error}"
