"""What a selection costs, in batches: population-based training of the reference work, 16 members.

    python benchmarks/selection_cost.py

A training with a selection before every batch against one with a selection at the end of the same calls of
the compiled loop: both stop after each batch, so that the difference is the selection. Medians of turns, in
CPU time.
"""

import statistics
import time

import jax
import jax.numpy as jnp

import popsim
from popsim import networks, plants, tasks, training

N_MEMBERS, N_UNITS, BATCH_SIZE, N_BATCHES, TURNS = 16, 50, 64, 40, 5


def reference() -> tuple:
    """The task and the ensemble: a point mass of 100 steps, gated networks of 50 units."""
    plant = plants.PointMass()
    task = tasks.RandomReaches(plant.workspace, duration=1.0)
    channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.05)}
    n_inputs = popsim.n_network_inputs(task.validation_trials(), plant, channels)

    def build(key):
        network = networks.GRUNetwork(n_inputs, N_UNITS, plant.n_commands, key=key)
        return popsim.SensorimotorLoop(network, plant, channels, dt=0.01)

    return task, popsim.make_ensemble(build, N_MEMBERS, key=jax.random.key(0))


def main() -> None:
    """Measure, and print the ratio."""
    task, ensemble = reference()
    rates = popsim.PerMember(jnp.geomspace(1e-4, 1e-2, N_MEMBERS))
    stops = {batch: [lambda: None] for batch in range(N_BATCHES)}
    rules = {"batches": None, "batches and selections": training.PopulationBasedTraining(1)}
    spent: dict[str, list[float]] = {name: [] for name in rules}
    for turn in range(TURNS + 1):
        for name, rule in rules.items():
            trainer = training.TaskTrainer(training.adam(rates), population_updates=[rule])
            began = {}

            def begin(_: int, began=began) -> None:
                began["at"] = time.process_time()

            counts = []
            for n_batches in (2, N_BATCHES):
                callbacks = {batch: numbers for batch, numbers in stops.items() if batch < n_batches}
                trainer(
                    task,
                    ensemble,
                    n_batches,
                    BATCH_SIZE,
                    lambda model: model.network,
                    ensembled=True,
                    log_step=10**6,
                    disable_tqdm=True,
                    batch_callbacks=callbacks,
                    on_begin=begin,
                    key=jax.random.key(turn),
                )
                counts.append(time.process_time() - began["at"])
            if turn:
                spent[name].append((counts[1] - counts[0]) / (N_BATCHES - 2))
    batch, both = (statistics.median(costs) for costs in spent.values())
    selection = both - batch
    print(f"a batch {1e3 * batch:.1f} ms, a selection {1e3 * selection:.1f} ms: {selection / batch:.2f}")


if __name__ == "__main__":
    main()
