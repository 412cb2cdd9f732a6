"""Point-mass reaches of trained networks against the LQR and LQG optimum (Todorov & Jordan 2002).

Five networks are trained in each of three conditions. Their cost J is divided by J*, the lowest that any
causal controller of this plant can reach, so that a ratio below 1 is as much a fault as one far above. J*
comes from `references/lqr.py`, which shares no code with popsim. Prints the ratios, draws the figure, and
exits with 1 when a gate fails, when untrained networks pass it, or when none was checked.
"""

import argparse
import dataclasses
import sys
import time
from pathlib import Path

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import popsim
from figures.lqr_reaching import draw_figure
from gates import Row, cost_rows, exit_code, negative_controls, print_table
from network_training import train_networks
from popsim.evaluation import Evaluation
from references import lqr

N_MEMBERS, N_UNITS, BATCH_SIZE, QUICK_BATCHES = 5, 32, 64, 600
DISTANCE = 0.1  # m


@dataclasses.dataclass(frozen=True)
class Condition:
    """What networks are trained and tested on."""

    reach: lqr.Reach
    n_batches: int
    n_repeats: int  # of each target in the test
    highest: float  # J/J* that passes


# The gate of the delayed networks: the optimum with twice their delay is 1.077 times theirs.
DELAYED = lqr.Reach(force_noise=0.5, sensor_noise=(1e-3, 1e-2), delay=5)
CONDITIONS = {
    "clean": Condition(lqr.Reach(), n_batches=2000, n_repeats=1, highest=1.02),
    "noisy": Condition(lqr.Reach(force_noise=0.5), n_batches=3000, n_repeats=250, highest=1.05),
    "delayed": Condition(DELAYED, n_batches=3000, n_repeats=250, highest=1.07),
}


def build_plant(reach: lqr.Reach) -> popsim.plants.PointMass:
    """The plant of the reference: explicit Euler, one step."""
    return popsim.plants.PointMass(reach.mass, solver=diffrax.Euler(), n_substeps=1)


def build_task(reach: lqr.Reach, weight: float = 1.0) -> popsim.tasks.CenterOutReaches:
    """10 cm reaches in any direction, tested on eight; the loss is `weight` times J."""
    losses = popsim.losses
    cost = losses.PositionError(profile=losses.FinalStep()) + reach.velocity_weight * losses.FinalVelocity()
    cost = weight * (cost + reach.effort_weight * losses.Effort())
    times = {"duration": reach.n_steps * reach.dt, "dt": reach.dt}
    workspace = build_plant(reach).workspace
    return popsim.tasks.CenterOutReaches(workspace, loss=cost, distance=DISTANCE, n_directions=None, **times)


def build_ensemble(reach: lqr.Reach, key: jax.Array) -> popsim.SensorimotorLoop:
    """Untrained GRUs with the senses and the force noise of the reference."""
    plant, trials = build_plant(reach), build_task(reach).validation_trials()
    exact = popsim.noise.NoNoise()
    sensed = popsim.GaussianNoise(np.repeat(reach.sensor_noise, 2)) if any(reach.sensor_noise) else exact
    moved = popsim.MotorNoise(0, reach.force_noise) if reach.force_noise else exact
    channels = {"vision": popsim.SensoryChannel(popsim.vision, reach.delay * reach.dt, sensed)}
    scaling = {"target": popsim.Scaling(0, 0.05), "vision": popsim.Scaling(0, [0.05, 0.05, 0.1, 0.1])}
    n_inputs = popsim.n_network_inputs(trials, plant, channels)

    def build(key):
        network = popsim.networks.GRUNetwork(n_inputs, N_UNITS, plant.n_commands, key=key)
        return popsim.SensorimotorLoop(network, plant, channels, moved, scaling, dt=reach.dt)

    return popsim.make_ensemble(build, N_MEMBERS, key=key)


def train(
    ensemble: popsim.SensorimotorLoop, reach: lqr.Reach, n_batches: int, key: jax.Array
) -> popsim.SensorimotorLoop:
    """The trained ensemble. J is given in cm²: in m² no gradient is as large as the clip norm."""
    rate = optax.cosine_decay_schedule(3e-3, n_batches)
    task, optimizer = build_task(reach, weight=1e4), popsim.training.adam(rate, clip_norm=1.0)
    return train_networks(task, ensemble, optimizer, n_batches, BATCH_SIZE, key=key)


def evaluate(condition: Condition, ensemble: popsim.SensorimotorLoop, key: jax.Array) -> Evaluation:
    """States and costs of all members in double precision, as numpy arrays."""
    with jax.enable_x64(True):
        task = build_task(condition.reach)
        trials = popsim.repeat_trials(task.validation_trials(), condition.n_repeats)
        double = jax.tree.map(lambda x: x.astype(float) if eqx.is_inexact_array(x) else x, ensemble)
        return jax.device_get(popsim.evaluate_ensemble(double, task, trials=trials, key=key))


def check_dynamics(reach: lqr.Reach) -> None:
    """Assert that the plant has the A and B of the reference, by finite differences, and no offset."""
    with jax.enable_x64(True):
        plant = build_plant(reach)

        def step(x):
            state = popsim.plants.PointMassState(x[0:2], x[2:4])
            after = popsim.plants.advance(plant, state, x[4:6], popsim.plants.Load(), dt=reach.dt)
            return jnp.concatenate([after.position, after.velocity])

        up, down = (np.asarray(jax.vmap(step)(sign * jnp.eye(6))) for sign in (1.0, -1.0))
    A, B = lqr.dynamics(reach.mass, reach.dt)
    np.testing.assert_allclose((up - down).T / 2, np.hstack([A[:4, :4], B[:4]]), rtol=0, atol=1e-14)
    np.testing.assert_allclose(up + down, 0, atol=1e-14)


def run(name: str, n_batches: int, seed: int) -> tuple[list[Row], popsim.HandState]:
    """Train and test: the rows of a condition and of its untrained networks, and the trained hands."""
    condition, key = CONDITIONS[name], popsim.key_stream(jax.random.key(seed), name)
    check_dynamics(condition.reach)
    optimum = lqr.optimal_cost(condition.reach, np.array([DISTANCE, 0]))
    untrained = build_ensemble(condition.reach, popsim.key_stream(key, "networks"))
    trained = train(untrained, condition.reach, n_batches, popsim.key_stream(key, "training"))
    before, after = (evaluate(condition, e, popsim.key_stream(key, "test")) for e in (untrained, trained))
    gate_members = condition.n_repeats == 1  # with noise the mean of the ensemble
    gate = (optimum, condition.highest, gate_members)
    rows = cost_rows(name, np.asarray(after.losses.total), *gate)
    control = cost_rows(f"{name}, untrained", np.asarray(before.losses.total), *gate)
    return rows + negative_controls(control), after.states.hand


def main() -> int:
    """Run the conditions, print the table, draw the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("lqr_reaching"), help="folder of the figure")
    parser.add_argument("--quick", action="store_true", help="fewer batches, and the clean condition alone")
    parser.add_argument("--seed", type=int, default=0, help="of networks, trials and noise")
    args = parser.parse_args()
    names = ["clean"] if args.quick else list(CONDITIONS)
    rows, hands = [], {}
    for name in names:
        began = time.perf_counter()
        n_batches = QUICK_BATCHES if args.quick else CONDITIONS[name].n_batches
        new_rows, hands[name] = run(name, n_batches, args.seed)
        rows += new_rows
        print(f"{name}: {n_batches} batches, {time.perf_counter() - began:.0f} s", flush=True)
    print_table(rows, "J (m²)", "J* (m²)")
    if args.quick:
        print("Not checked (--quick):", ", ".join(name for name in CONDITIONS if name not in names))
    reach = CONDITIONS["clean"].reach
    targets = np.asarray(build_task(reach).validation_trials().targets.position[:, -1])
    optimal = np.stack([lqr.optimal_reach(reach, target) for target in targets])
    print(*draw_figure(args.out, rows, hands, targets, optimal, reach.dt), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
