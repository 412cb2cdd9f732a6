"""On which devices a command trains."""

import contextlib
import os

import jax

from popsim.checks import check_positive_int

MOST_VIRTUAL = 256


def training_devices(count: int | None) -> list[jax.Device]:  # pyright: ignore[reportInvalidTypeForm]
    """The devices over which a command divides its ensemble.

    On a machine without an accelerator there is one virtual device for each core that the process may use:
    XLA runs each on a core of its own.

    **Arguments:**

    - `count`: how many; None for as many as there are.

    **Raises:** `ValueError` if there are fewer.
    """
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count is not None:
        check_positive_int("devices", count)
        if count > max(n_cores, MOST_VIRTUAL):
            raise ValueError(f"`devices` must be at most {max(n_cores, MOST_VIRTUAL)}, got {count}.")
        n_cores = max(n_cores, count)
    with contextlib.suppress(RuntimeError):  # JAX has begun already, with the devices that it has
        jax.config.update("jax_num_cpu_devices", n_cores)
    devices = jax.local_devices()
    if count is not None and count > len(devices):
        raise ValueError(f"`devices` must be at most the {len(devices)} that JAX has, got {count}.")
    return devices[:count]
