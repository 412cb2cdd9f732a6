"""What it takes to find the fixed points of 5 gated networks of 64 units, from 2,000 starts each.

The networks are trained for a while to remember three bits. Searches run in places that others take as they
end, as they do by default, and all at once until the last has ended. Seconds of wall clock and of processor,
the first with compilation; everything on the cores that the environment says (`taskset -c 0,1`).
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
    trials = jax.vmap(lambda key: task.trial(batch=0, key=key))(jax.random.split(jax.random.key(2), 128))
    states = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(3)).states
    return np.asarray(states.network.hidden)


def measure(ensemble: popsim.NetworkModel, starts: np.ndarray, n_at_once: int, times: int) -> None:
    """Find the points some times with so many searches at once, and print how long it took."""
    search = dynamics.FixedPointSearch(n_at_once=n_at_once)
    for run in range(times):
        began, began_processor = time.perf_counter(), time.process_time()
        found = dynamics.find_fixed_points(ensemble, starts, search=search)
        wall, processor = time.perf_counter() - began, time.process_time() - began_processor
        label = f"{n_at_once} at once, {'again' if run else 'with compilation'}"
        print(f"{label:32} {wall:8.1f} s {processor:8.1f} s of processor", flush=True)
        print(f"points by unstable directions: {found.fixed.counts().tolist()}, slow: {len(found.slow)}")


def main() -> None:
    """Train, then measure both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batches", type=int, default=600)
    parser.add_argument("--starts", type=int, default=2000)
    parser.add_argument("--times", type=int, default=2)
    options = parser.parse_args()
    ensemble = trained_ensemble(options.batches)
    starts = dynamics.mixtures_of_states(visited_states(ensemble), options.starts, key=jax.random.key(4))
    for n_at_once in (dynamics.FixedPointSearch().n_at_once, options.starts):
        measure(ensemble, starts, n_at_once, options.times)


if __name__ == "__main__":
    main()
