"""A worker of the benchmarks: trains the ensemble of the main job for some batches and prints what it cost.

Prints seconds to the first batch, seconds a batch after it, and the peak memory of the process in GB.
"""

import argparse
import os
import resource
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--members", type=int, default=16)
parser.add_argument("--plant", default="two-link-arm")
parser.add_argument("--units", type=int, default=64)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--batches", type=int, default=20)
parser.add_argument("--cores", type=int, default=1)
parser.add_argument("--devices", type=int, default=1)
parser.add_argument("--member-batch-size", type=int)
parser.add_argument("--minibatches", type=int, default=1)
parser.add_argument("--remat", action="store_true")
arguments = parser.parse_args()
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])  # before JAX starts its threads

import jax  # noqa: E402

from popsim.cli._devices import training_devices  # noqa: E402
from popsim.experiments import CenterOut  # noqa: E402


def main() -> None:
    """Train and print."""
    experiment = CenterOut(
        plant=arguments.plant,
        n_units=arguments.units,
        n_members=arguments.members,
        batch_size=arguments.batch_size,
    )
    devices = training_devices(arguments.devices)
    trainer = experiment.build_trainer(
        devices=devices,
        member_batch_size=arguments.member_batch_size,
        n_minibatches=arguments.minibatches,
        remat=arguments.remat,
    )
    ensemble = experiment.build_ensemble()
    times = []
    callbacks = {batch: [lambda: times.append(time.perf_counter())] for batch in (0, arguments.batches)}
    began = time.perf_counter()
    n_batches = arguments.batches + 2  # the last is logged: the timed ones end before that compiles
    trainer(
        experiment.build_task(),
        ensemble,
        n_batches,
        arguments.batch_size,
        experiment.where_train,
        ensembled=True,
        log_step=n_batches,
        disable_tqdm=True,
        batch_callbacks=callbacks,
        key=jax.random.key(0),
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(times[0] - began, (times[1] - times[0]) / arguments.batches, peak)


if __name__ == "__main__":
    main()
