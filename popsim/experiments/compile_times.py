"""How long programs took to compile, noted in the folder in which JAX keeps compiled programs."""

import contextlib
import dataclasses
import hashlib
import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from popsim._plain_values import plain_value
from popsim.experiments.experiment import AbstractExperiment
from popsim.store.files import write_file
from popsim.training import FinishedBatches, Observer, TrainingStart

__all__ = ["CompileTimes"]

FILE = "compile_seconds.json"
MOST_TIMES = 2000
MOST_BYTES = 1_000_000
DRAWS = ("seed", "first_member")  # settings on which no program depends


class CompileTimes(Observer):
    """Notes how long the training of an experiment takes to compile, and says how long it took before.

    The times are in the file `compile_seconds.json` of the folder in which JAX keeps programs
    (`jax_compilation_cache_dir`). Without this folder nothing is noted, and nothing is known.

    **Arguments:**

    - `experiment`: the experiment.
    - `n_devices`: the number of devices over which its members are divided.
    """

    def __init__(self, experiment: AbstractExperiment, n_devices: int):
        settings = {
            name: value for name, value in dataclasses.asdict(experiment).items() if name not in DRAWS
        }
        choices = {name: value for name, value in settings.items() if isinstance(value, str)}
        self._program = program_digest(experiment.name, n_devices, settings)
        self._kind = program_digest(experiment.name, n_devices, choices)
        self._begun: float | None = None

    def expected_seconds(self) -> float | None:
        """Return how long this program took the last time, else one with the same choices; None if unknown.

        The choices are the settings that are text, such as the plant and the network. What they take depends
        little on the numbers among the settings.
        """
        times = read_times()
        return times.get(self._program, times.get(self._kind))

    def on_begin(self, start: TrainingStart) -> None:
        """Forget an earlier training."""
        self._begun = None

    def on_compilation(self, program: str) -> None:
        """Note when the compilation begins."""
        if program == "training":
            self._begun = time.perf_counter()

    def on_batches(self, batches: FinishedBatches) -> None:
        """Write down how long it took, with the first call of the loop."""
        if self._begun is None:
            return
        seconds, self._begun = time.perf_counter() - self._begun, None
        self.note(seconds)

    def note(self, seconds: float) -> None:
        """Write down how long the program took, if there is a folder for it."""
        if (folder := programs_folder()) is None:
            return
        times = read_times()
        # A program that was there already is loaded, which takes less than to compile one of its kind.
        names = [self._program] if self._program in times else [self._program, self._kind]
        for name in names:
            times.pop(name, None)
            times[name] = round(float(seconds), 1)
        newest = dict(list(times.items())[-MOST_TIMES:])
        with contextlib.suppress(OSError):
            write_file(folder / FILE, (json.dumps(newest).encode(),))


def program_digest(experiment: str, n_devices: int, settings: Mapping[str, Any]) -> str:
    """Return a digest of what a program depends on."""
    text = json.dumps(
        [experiment, n_devices, plain_value("settings", settings)], sort_keys=True, default=repr
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def programs_folder() -> Path | None:
    """Return the folder in which JAX keeps compiled programs; None if there is none."""
    folder = jax.config.values.get("jax_compilation_cache_dir")
    return Path(folder) if folder and "://" not in folder and Path(folder).is_dir() else None


def read_times() -> dict[str, float]:
    """Return the times in seconds by digest; none if they cannot be read."""
    if (folder := programs_folder()) is None:
        return {}
    try:
        with (folder / FILE).open("rb") as file:
            times = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(times, dict):
        return {}
    return {
        name: seconds
        for name, seconds in times.items()
        if isinstance(seconds, float) and math.isfinite(seconds) and seconds >= 0
    }
