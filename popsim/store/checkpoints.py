"""Checkpoints of a training: one safetensors file each, written atomically and verified by checksums."""

import contextlib
import dataclasses
import math
import os
import platform
import re
from collections.abc import Callable, Container, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from popsim._shared.checks import warn_caller
from popsim.store.array_file import AnyArray, ArrayFile, Form, as_numpy, describe, write_array_file
from popsim.store.files import CorruptDataError, MismatchError, SaveError, finished_name, make_folder
from popsim.store.identity import RUN_ID, check_run_id
from popsim.store.json_files import plain_json
from popsim.version import __version__

__all__ = ["Checkpoint", "Checkpoints"]

KIND = "a checkpoint"
N_SHARED = 3
"""How many of the checkpoints that others read are kept: the newest, and two to go back to."""
_VERSIONS = {"popsim": __version__, "jax": jax.__version__, "python": platform.python_version()}
_OWN_FILE = re.compile(r"(?P<step>\d{9}|[1-9]\d{9,})\.safetensors")

Expected = Callable[[dict[str, Any]], Mapping[str, jax.ShapeDtypeStruct]]
"""From the details of a checkpoint to the shapes and dtypes of its arrays; may raise `MismatchError`."""


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The state saved at one step.

    - `step`: the number of training batches.
    - `arrays`: numpy arrays, and JAX arrays of typed keys, by name.
    - `details`: further JSON values of the caller.
    """

    step: int
    arrays: dict[str, AnyArray]
    details: dict[str, Any]


class Checkpoints:
    """The checkpoints of a training: files such as `000000640.safetensors` in one folder.

    A checkpoint is written under a random name and renamed once it is completely on disk, so the process may
    be killed at any time. Only one process at a time may save (see `lock_folder`); others may read meanwhile.
    Orbax is not used: its manager gave other numbers, and no error, for 3 to 9 of 40 flipped bits.
    """

    def __init__(
        self, path: Path, *, n_kept: int = 3, shared_steps: Container[int] = (), run_id: str | None = None
    ):
        """Open the checkpoints of a run, None for any, in the folder `path`, which the first save creates.

        A save keeps the newest `n_kept` up to its step, all later ones, and of the `shared_steps`, which
        others read, the last `N_SHARED`.
        """
        self.path = Path(path)
        self.n_kept = n_kept
        self._shared_steps = shared_steps
        self._run_id = run_id
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="popsim-checkpoints")
        self._pending: Future | None = None

    def steps(self) -> list[int]:
        """Return the steps of the checkpoints, ascending."""
        # List until two listings agree: one made during a write may lack both the old and the new checkpoint.
        listed, steps = None, self._list_steps()
        while steps != listed:
            listed, steps = steps, self._list_steps()
        return sorted(steps)

    def _list_steps(self) -> set[int]:
        names = os.listdir(self.path) if self.path.is_dir() else []
        return {int(match["step"]) for match in map(_OWN_FILE.fullmatch, names) if match}

    def kept_steps(self, *, up_to: float = math.inf) -> list[int]:
        """Return the steps that a save keeps, of those up to a step."""
        steps = [step for step in self.steps() if step <= up_to]
        shared = [step for step in steps if step in self._shared_steps]
        return sorted({*steps[-self.n_kept :], *shared[-N_SHARED:]})

    def file(self, step: int) -> Path:
        """Return the path of the checkpoint of a step, whether it exists or not."""
        return self.path / f"{step:09d}.safetensors"

    def save(self, step: int, arrays: Mapping[str, AnyArray], details: Mapping[str, Any]) -> None:
        """Save a checkpoint: wait for the previous save, copy the arrays, and write them in the background.

        Call `wait` before the process ends: Python starts no threads during shutdown.

        **Raises:** `SaveError` if the previous save failed; then nothing is saved.
        """
        self.wait()
        forms = {name: describe(array) for name, array in arrays.items()}
        content = {"kind": KIND, "step": int(step), RUN_ID: self._run_id, "versions": _VERSIONS}
        content["details"] = plain_json("details", details)
        # All copies are started before the first is waited for.
        for array in arrays.values():
            if isinstance(array, jax.Array):
                array.copy_to_host_async()
        copies = {name: np.array(as_numpy(array), order="C") for name, array in arrays.items()}
        self._pending = self._thread.submit(self._write, int(step), copies, forms, content)

    @property
    def is_writing(self) -> bool:
        """Whether a checkpoint is being written in the background."""
        return self._pending is not None and not self._pending.done()

    def wait(self) -> None:
        """Wait until the last save is on disk; raises `SaveError` if it failed."""
        error = self._pending and self._pending.exception()  # may be interrupted, and called again
        self._pending = None
        if error is not None:
            raise error

    def restore(
        self, expected: Expected, *, step: int | None = None, subset: bool = False
    ) -> Checkpoint | None:
        """Read the newest undamaged checkpoint, or that of `step`, verifying all of it; None without any.

        With `subset` the checkpoint may hold further arrays, which are left out.

        **Raises:** `MismatchError` if a checkpoint was written by something else; `CorruptDataError` if all
        are damaged; one that is passed over gives a warning.
        """
        self.wait()
        if step is not None:
            if step not in (steps := self.steps()):
                raise ValueError(f"`step` must be one of {steps}, for which {self.path} has one, got {step}.")
            return self._read(step, expected, subset)
        damages: dict[int, CorruptDataError] = {}
        while steps := {*self.steps()} - damages.keys():  # listed anew, as another process may save meanwhile
            newest = max(steps)
            if damages:
                damage = [*damages.values()][-1]
                warn_caller(f"a checkpoint is passed over, that of step {newest} is tried: {damage}")
            try:
                return self._read(newest, expected, subset)
            except CorruptDataError as error:
                if newest in self.steps():  # else it was deleted while it was read, which is no damage
                    damages[newest] = error
        if damages:
            raise CorruptDataError(f"all checkpoints are damaged: {' '.join(map(str, damages.values()))}")
        return None

    def remove(self) -> None:
        """Remove all checkpoints; other files stay, and then so does the folder."""
        if self.path.is_symlink():
            return
        for step in self.steps():
            self.file(step).unlink()
        self._clear_leftovers()
        with contextlib.suppress(OSError):  # it holds other files, or does not exist
            self.path.rmdir()

    def verify(self, step: int, *, every_byte: bool = True) -> dict[str, Any]:
        """Verify all of a checkpoint, or all but its arrays, and return its details.

        **Raises:** `CorruptDataError` naming its file; `MismatchError` if it was written by something else.
        """
        with self._open_file(step) as file:
            if every_byte:
                file.arrays()
            return file.content["details"]

    def _read(self, step: int, expected: Expected, subset: bool) -> Checkpoint:
        with self._open_file(step) as file:
            details = file.content["details"]
            source = f"{self.file(step)}, written by {file.content.get('versions')},"
            arrays = file.restore(expected(details), source=source, subset=subset)
            return Checkpoint(step, arrays, details)

    @contextlib.contextmanager
    def _open_file(self, step: int) -> Iterator[ArrayFile]:
        path = self.file(step)
        with ArrayFile.open(path, KIND) as file:
            content = file.content
            check_run_id(content.get(RUN_ID), self._run_id, path)
            if content["step"] != step:
                raise MismatchError(f"{path} must be of step {step}, got step {content['step']}.")
            yield file

    def _write(
        self, step: int, copies: Mapping[str, np.ndarray], forms: Mapping[str, Form], content: dict[str, Any]
    ) -> None:
        complete = []
        try:
            complete = self.steps()
            make_folder(self.path)
            self._clear_leftovers()
            write_array_file(self.file(step), copies, forms, content)
        except Exception as error:
            raise SaveError(
                f"step {step} could not be saved in {self.path}; the checkpoints of steps {complete} are as "
                f"they were: {error}"
            ) from error
        try:
            # Old ones are deleted last, so that at no time there are fewer complete ones than before.
            steps_to_keep = self.kept_steps(up_to=step)
            for old in (number for number in self.steps() if number <= step and number not in steps_to_keep):
                self.file(old).unlink()
        except OSError as error:
            raise SaveError(f"step {step} is saved, an old one is still in {self.path}: {error}") from error

    def _clear_leftovers(self) -> None:
        for path in [*self.path.iterdir()] if self.path.is_dir() else []:
            if _OWN_FILE.fullmatch(finished_name(path.name) or "") and path.is_file():
                path.unlink()
