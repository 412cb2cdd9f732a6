"""One call for a job that may be started many times: it begins a run, goes on with it, or returns it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from popsim.experiments.experiment import AbstractExperiment
from popsim.experiments.rebuild import describe_experiment
from popsim.experiments.recording import Recording
from popsim.experiments.run import Run
from popsim.experiments.run_experiment import finish_run, run_experiment
from popsim.store import MismatchError, RunFolder
from popsim.store.run_folder import check_path, read_description
from popsim.training.trainer_options import CHECKPOINT_SECONDS


def run_or_resume(
    experiment: AbstractExperiment,
    out: str | Path,
    *,
    quiet: bool = False,
    recording: Recording | None = None,
    devices: Sequence[jax.Device] | None = None,  # pyright: ignore[reportInvalidTypeForm]
    checkpoint_seconds: float | None = None,
    stop: Callable[[], bool] | None = None,
) -> Run:
    """Finish the run of an experiment: begin it, go on where it was interrupted, or return it as it is.

    **Arguments:**

    - `out`: the folder of the run. If it holds one, this must be of the same experiment, settings and
        recording.
    - `checkpoint_seconds`: None for what the run began with.
    - others: see `run_experiment`. For the same bits, `devices` must be as many as before, which
        `devices_of_run` tells.

    **Returns:** the finished run.

    **Raises:** `MismatchError` if `out` holds another run, naming the settings that differ; else as
    `run_experiment` and `resume_run`.
    """
    check_path("out", out)
    folder = RunFolder(Path(out))
    folder.check_plain()
    recording = recording or Recording()
    if not folder.description.exists():
        return run_experiment(
            experiment,
            out,
            quiet=quiet,
            recording=recording,
            devices=devices,
            checkpoint_seconds=CHECKPOINT_SECONDS if checkpoint_seconds is None else checkpoint_seconds,
            stop=stop,
        )
    description = read_description(folder.description)
    _check_same(description, experiment, recording, folder)
    run = Run(folder, experiment)
    return finish_run(run, quiet=quiet, devices=devices, checkpoint_seconds=checkpoint_seconds, stop=stop)


def _check_same(
    description: Mapping[str, Any], experiment: AbstractExperiment, recording: Recording, folder: RunFolder
) -> None:
    """**Raises:** `MismatchError` naming what differs."""
    expected = describe_experiment(experiment)
    found, given = description.get("experiment"), expected["experiment"]
    differ = [] if found == given else [("experiment", found, given)]
    if not differ:
        differ = _differences(description.get("settings"), expected["settings"])
        differ += _differences(description.get("recording"), dataclasses.asdict(recording))
    if differ:
        said = "; ".join(f"`{name}` is {there!r} there and {here!r} here" for name, there, here in differ)
        raise MismatchError(f"`out` must hold a run like this one to go on with, got {folder.path}: {said}.")


def _differences(found: Any, expected: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """By name what was found and what is expected, where they are not the same as JSON."""
    found = found if isinstance(found, dict) else {}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in expected.items()}
    names = [*plain, *(name for name in found if name not in plain)]
    pairs = [(name, found.get(name, "not"), plain.get(name, "not")) for name in names]
    return [(name, there, here) for name, there, here in pairs if there != here]
