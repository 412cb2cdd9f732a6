"""What members cost that a population update has stopped: the reference work, 16 members in blocks of 4.

    python benchmarks/stopping_cost.py

The time of a batch without updates, with one that stops nobody, and with one that has stopped 12 of the
members, one of each four; and the largest difference between the weights of those that train and the weights
without updates, which must be 0. Medians of turns, in CPU time.
"""

import dataclasses
import functools
import statistics
import time

import jax
import numpy as np
from selection_cost import BATCH_SIZE, N_MEMBERS, reference

from popsim import training

BLOCK, LOG_STEP, FIRST, LAST, TURNS = 4, 26, 26, 50, 7


class StopFor(training.AbstractPopulationUpdate):
    """Stop all members but one of each `among`; 1 stops none."""

    among: int
    may_stop = True

    def __call__(self, population, results, state, *, batch, key):
        stopped = np.arange(population.n_members) % self.among > 0
        return dataclasses.replace(population, stopped=stopped), state, {}


def main() -> None:
    """Measure, and print the ratios."""
    task, ensemble = reference()
    optimizer = training.adam(1e-3)
    updates_by_name = {"no updates": (), "nobody stopped": [StopFor(1)], "12 of 16 stopped": [StopFor(4)]}
    spent: dict[str, list[float]] = {name: [] for name in updates_by_name}
    weights = {}
    for _ in range(TURNS):
        for name, updates in updates_by_name.items():
            trainer = training.TaskTrainer(optimizer, population_updates=updates, member_batch_size=BLOCK)
            at: list[float] = []
            look = functools.partial(_append_time, at)
            trained, _ = trainer(
                task,
                ensemble,
                LAST + 2,
                BATCH_SIZE,
                lambda model: model.network,
                ensembled=True,
                log_step=LOG_STEP,
                disable_tqdm=True,
                batch_callbacks={FIRST: [look], LAST: [look]},  # no log point between them
                key=jax.random.key(1),
            )
            weights[name] = np.asarray(trained.network.readout.weight)
            spent[name].append((at[1] - at[0]) / (LAST - FIRST))
    baseline = spent["no updates"]
    for name, costs in spent.items():
        ratios = [cost / base for cost, base in zip(costs, baseline, strict=True)]
        print(
            f"{name}: {1e3 * statistics.median(costs):.1f} ms, {statistics.median(ratios):.3f} of no updates "
            f"({min(ratios):.3f} to {max(ratios):.3f})"
        )
    trains = np.arange(N_MEMBERS) % 4 == 0
    apart = np.abs(weights["12 of 16 stopped"] - weights["no updates"])[trains].max()
    print(f"largest difference of the weights of those that train: {apart}")


def _append_time(times: list[float]) -> None:
    times.append(time.process_time())


if __name__ == "__main__":
    main()
