"""What recording all trainables adds to a training batch.

A network of 64 units, with and without its trainables kept after every batch, in turn, on one core. Times are
of training through `TaskTrainer`, the loss recorded, from the difference of a long and a short training, so
that compilation and start do not count.
"""

import argparse
import os
import statistics
import time

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX starts its threads

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import popsim  # noqa: E402
from popsim.training import TaskTrainer, adam  # noqa: E402


def squared_error(states, trial, model):
    """The loss."""
    return jnp.mean((states.network.output - trial.targets) ** 2)


class RunningSum(popsim.AbstractTask):
    """Put out the running sum of a noisy input."""

    n_steps: int = 5
    loss: popsim.Loss = popsim.FunctionTerm("squared error", squared_error) * 1.0

    def trial(self, *, batch, key):
        inputs = jax.random.normal(key, (self.n_steps, 1))
        timeline = popsim.Timeline(dt=0.01, n_steps=self.n_steps)
        return popsim.Trial((), inputs, jnp.cumsum(inputs, axis=0), timeline)

    def validation_trials(self):
        return jax.vmap(lambda key: self.trial(batch=0, key=key))(jax.random.split(jax.random.key(0), 2))


def build(n_units: int):
    """A function from a key to a network of that size."""

    def build_one(key):
        return popsim.NetworkModel(popsim.networks.GRUNetwork(1, n_units, 1, key=key), dt=0.01)

    return build_one


def seconds(n_batches: int, n_members: int, n_units: int, n_steps: int, batch_size: int, **options) -> float:
    """Wall time of a training."""
    ensemble = popsim.make_ensemble(build(n_units), n_members, key=jax.random.key(0))
    model = popsim.member(ensemble, 0) if n_members == 1 else ensemble
    began = time.perf_counter()
    TRAINER(
        RunningSum(n_steps=n_steps),
        model,
        n_batches,
        batch_size,
        lambda m: m.network,
        ensembled=n_members > 1,
        log_step=n_batches,
        disable_tqdm=True,
        key=jax.random.key(1),
        **options,
    )
    return time.perf_counter() - began


TRAINER = TaskTrainer(adam(1e-3, clip_norm=1.0))


def recording(n_steps: int, batch_size: int, n_repeats: int) -> tuple[float, float]:
    """Milliseconds a batch without and with the trainables of each of 2000 batches kept, taken in turn."""
    work = {"n_members": 5, "n_units": 64, "n_steps": n_steps, "batch_size": batch_size}
    plain, recorded = [], []
    for options in ({}, {"save_model_trainables": True}):
        seconds(100, **work, **options)
    for _ in range(n_repeats):
        for options, times in (({}, plain), ({"save_model_trainables": True}, recorded)):
            times.append((seconds(2000, **work, **options) - seconds(100, **work, **options)) / 1900)
    return 1e3 * statistics.median(plain), 1e3 * statistics.median(recorded)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    for n_steps, batch_size in ((50, 16), (100, 64)):
        plain, recorded = recording(n_steps, batch_size, arguments.repeats)
        print(
            f"64 units, 5 members, {batch_size} trials of {n_steps} steps: {plain:.2f} ms a batch, "
            f"with its trainables recorded {recorded:.2f} ms: {100 * (recorded / plain - 1):.1f} % more",
            flush=True,
        )


if __name__ == "__main__":
    main()
