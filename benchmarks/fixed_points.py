"""What it takes to find the fixed points of 5 gated networks of 64 units, from 2,000 starts each.

The networks are trained for a while to remember three bits. Searches run in places that others take as they
end. From a part of the starts they then run both so and all at once until the last has ended, which is what
that saves. Seconds of wall clock and of processor; everything on the cores that the environment says
(`taskset -c 0,1`).
"""

import argparse
import sys
import time
from pathlib import Path

import jax
import numpy as np

import popsim
from popsim.analysis import dynamics
from popsim.training import TaskTrainer, adam

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from flip_flop import (  # noqa: E402  # pyright: ignore[reportMissingImports]
    DT,
    N_BITS,
    FlipFlop,
)

N_MEMBERS, N_UNITS = 5, 64


def build(key) -> popsim.NetworkModel:
    """One untrained model."""
    return popsim.NetworkModel(popsim.networks.GRUNetwork(N_BITS, N_UNITS, N_BITS, key=key), dt=DT)


def trained_ensemble(n_batches: int) -> popsim.NetworkModel:
    """Networks that remember three bits, more or less."""
    untrained = popsim.make_ensemble(build, N_MEMBERS, key=jax.random.key(0))
    trained, history = TaskTrainer(adam(5e-3))(
        FlipFlop(),
        untrained,
        n_batches,
        64,
        where_train=lambda model: model.network,
        ensembled=True,
        disable_tqdm=True,
        key=jax.random.key(1),
    )
    print(f"mean squared error after {n_batches} batches: {np.asarray(history.loss.total)[-1].round(5)}")
    return trained


def visited_states(ensemble: popsim.NetworkModel) -> np.ndarray:
    """The units of all members in 128 trials."""
    task = FlipFlop()
    trials = popsim.sample_trials(task, 128, batch=0, key=jax.random.key(2))
    states = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(3)).states
    return np.asarray(states.network.hidden)


def measure(ensemble: popsim.NetworkModel, starts: np.ndarray, n_at_once: int, label: str) -> float:
    """Find the points with so many searches at once, print how long it took, and return the seconds."""
    search = dynamics.FixedPointSearch(n_at_once=n_at_once)
    began, began_processor = time.perf_counter(), time.process_time()
    points = dynamics.find_fixed_points(ensemble, starts, search=search)
    wall, processor = time.perf_counter() - began, time.process_time() - began_processor
    print(f"{label:44} {wall:8.1f} s {processor:8.1f} s of processor", flush=True)
    print(f"  points by unstable directions: {points.fixed.counts().tolist()}, slow: {len(points.slow)}")
    return wall


def main() -> None:
    """Train, then measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batches", type=int, default=600)
    parser.add_argument("--starts", type=int, default=2000)
    parser.add_argument("--compared", type=int, default=400, help="starts from which both ways are measured")
    options = parser.parse_args()
    ensemble = trained_ensemble(options.batches)
    starts = dynamics.mixtures_of_states(visited_states(ensemble), options.starts, key=jax.random.key(4))
    by_default = dynamics.FixedPointSearch().n_at_once
    measure(ensemble, starts, by_default, f"{options.starts} starts, with compilation")
    measure(ensemble, starts, by_default, f"{options.starts} starts, again")
    some = starts[:, : options.compared]
    seconds = []
    for n_at_once in (by_default, options.compared):
        measure(
            ensemble, some, n_at_once, f"{options.compared} starts, {n_at_once} at once, with compilation"
        )
        label = f"{options.compared} starts, {n_at_once} at once, again"
        seconds.append(measure(ensemble, some, n_at_once, label))
    print(f"all at once takes {seconds[1] / seconds[0]:.1f} times as long")


if __name__ == "__main__":
    main()
