"""What a training ran on, which changes the last digits of its result or more, as `run.json` says it."""

import contextlib
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from popsim._compiled import PLAIN_JAX, current_engine, plain_jax
from popsim._named_values import different_flags, missing_flags, numeric_flags
from popsim._user_code import code_digest, code_of_modules, users_modules
from popsim.experiments.experiment import AbstractExperiment
from popsim.experiments.registry import described_modules
from popsim.store.files import MismatchError
from popsim.store.run_folder import DescribedRun
from popsim.version import __version__

__all__ = [
    "CODE",
    "FLAGS",
    "Devices",
    "check_flags",
    "circumstances",
    "code_of_experiment",
    "engine_of_run",
    "write_engine",
    "write_resumption",
]

Devices = Sequence[jax.Device]  # pyright: ignore[reportInvalidTypeForm]
FLAGS = "jax_flags"  # in run.json and sweep.json: those that change numbers
CODE = "code"  # in run.json: a digest of the user's modules


def circumstances(devices: Devices | None, experiment: AbstractExperiment) -> dict[str, Any]:
    """Return the software and hardware on which an experiment would be trained now."""
    return {
        "popsim": __version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "devices": 1 if devices is None else min(len(devices), experiment.n_members),
        "device_kind": (devices or jax.devices())[0].device_kind,
        "engine": current_engine(),
        FLAGS: numeric_flags(),
        CODE: code_digest(code_of_experiment(experiment)),
    }


def code_of_experiment(experiment: AbstractExperiment) -> dict[str, str]:
    """Return the digests of what the user's modules define that make an experiment known, by name."""
    modules = described_modules(experiment)
    names = [modules["module"], *modules.get("network_modules", ())]
    return code_of_modules(users_modules(names))


def check_flags(described: Mapping[str, Any], source: Path) -> list[str]:
    """Check that a run, or a sweep, was begun under the flags of JAX that are in force now.

    Returned are the names of the flags that its description, read from `source`, does not tell.

    **Raises:** `MismatchError` naming the flags that differ.
    """
    flags = described.get(FLAGS, {})
    if different := different_flags(flags):
        raise MismatchError(
            f"{source} must be of a training under the present flags of JAX, got others: {different}."
        )
    return missing_flags(flags)


def write_resumption(described: DescribedRun, n_batches: int, now: Mapping[str, Any]) -> DescribedRun:
    """Record in run.json the batch after which a run continues under changed circumstances."""
    before = _latest_description(described)
    if all(before.get(name) == value for name, value in now.items()):
        return described
    resumed = described.content.get("resumed", [])
    return described.write(resumed=[*resumed, {"after_batches": n_batches, **now}])


def engine_of_run(described: DescribedRun) -> contextlib.AbstractContextManager[None]:
    """Return the context in which a run continues with plain JAX if it did so before, for the same bits."""
    return (
        plain_jax() if _latest_description(described).get("engine") == PLAIN_JAX else contextlib.nullcontext()
    )


def write_engine(described: DescribedRun) -> DescribedRun:
    """Record in run.json that the engine did not know an operation, which is seen when it is traced."""
    engine = current_engine()
    return described if described.content.get("engine") == engine else described.write(engine=engine)


def _latest_description(described: DescribedRun) -> dict[str, Any]:
    """Return the description of a run with the circumstances under which it was last resumed."""
    return {**described.content, **(described.content.get("resumed") or [{}])[-1]}
