"""Reaches with one cost and two plants: filters before the mass make speed bell-shaped (after Todorov 2005).

Networks learn to reach with one cost of error and effort, once with a point mass that their command pushes
directly, once with the same mass behind two low-pass filters that stand for muscles. The peak of their speed
relative to its mean is 1.5 for the one, as of any reach of least effort, and 1.8 for the other, near the
1.875 of least jerk (Flash & Hogan 1985), though no jerk is in the cost. Each plant is compared with its own
optimum, `references/speed_profiles.py`, which shares no code with popsim; the optimum of the other plant must
not fit, nor untrained networks. Prints the numbers, draws the figure, and exits with 1 when a gate fails or a
negative control passes.
"""

import dataclasses
import sys
import time

import diffrax
import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

import popsim
from command_line import parse_options
from figures.speed_profiles import draw_figure
from gates import Row, cost_rows, exit_code, negative_controls, print_table, tolerance_row, upper_bound_row
from network_training import train_networks
from popsim.training import adam
from references import speed_profiles as reference

N_UNITS, BATCH_SIZE, RATE = 32, 32, 1e-2
SIZES, QUICK_SIZES = (5, 2000), (2, 1500)  # members, batches
HIGHEST_COST = 1.03  # relative to the optimum
DISTANCES = np.array([0.05, 0.1, 0.15, 0.2])  # m
N_DIRECTIONS = 8
REACHES = {"point mass": reference.Reach(), "with filters": reference.Reach(n_filters=2)}


class FilteredState(eqx.Module):
    """The state of the body, the force that moves it, and the output of the first filter (N)."""

    body: PyTree[Array]
    force: Float[Array, "*axes commands"]
    drive: Float[Array, "*axes commands"]


class Filtered(popsim.plants.AbstractPlant):
    """A body whose command passes two low-pass filters: tau dg/dt = u - g, tau df/dt = g - f; f moves it.

    - `body`: any body that forces or torques move.
    - `time_constant`: tau, in s.
    """

    body: popsim.plants.AbstractSkeleton
    time_constant: Float[Array, "*members"]
    workspace: popsim.Workspace
    solver: diffrax.AbstractSolver
    n_substeps: int = eqx.field(static=True)
    n_commands: int = eqx.field(static=True)

    def __init__(self, body: popsim.plants.AbstractSkeleton, time_constant: float):
        self.body, self.time_constant = body, jnp.asarray(time_constant)
        self.workspace, self.solver = body.workspace, body.solver
        self.n_substeps, self.n_commands = body.n_substeps, body.n_commands

    def vector_field(self, t, state, command, load):
        return FilteredState(
            self.body.vector_field(t, state.body, state.force, load),
            (state.drive - state.force) / self.time_constant,
            (command - state.drive) / self.time_constant,
        )

    def end_step(self, state, command, *, dt):
        return dataclasses.replace(state, body=self.body.end_step(state.body, state.force, dt=dt))

    def rest_state(self, position):
        still = jnp.zeros(self.n_commands, position.dtype)
        return FilteredState(self.body.rest_state(position), still, still)

    def coordinates(self, state):
        return self.body.coordinates(state.body)

    def hand(self, state):
        return self.body.hand(state.body)

    def is_reachable(self, position):
        return self.body.is_reachable(position)

    def proprioception(self, state):
        return self.body.proprioception(state.body)


class ReachesOfAnyDistance(popsim.AbstractTask):
    """Reaches in any direction over 5 to 20 cm, tested in eight directions over each of `DISTANCES`."""

    loss: popsim.Loss
    dt: float = eqx.field(static=True)
    n_steps: int = eqx.field(static=True)

    def trial(self, *, batch, key):
        angle = jax.random.uniform(popsim.key_stream(key, "direction"), maxval=2 * jnp.pi)
        nearest, farthest = DISTANCES[[0, -1]]
        distance = jax.random.uniform(popsim.key_stream(key, "distance"), minval=nearest, maxval=farthest)
        target = distance * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        return popsim.tasks.reach_trial(jnp.zeros(2), target, n_steps=self.n_steps, dt=self.dt)

    def validation_trials(self):
        def around(distance):
            return popsim.tasks.center_out_trials(
                jnp.zeros(2),
                distance=float(distance),
                n_directions=N_DIRECTIONS,
                n_steps=self.n_steps,
                dt=self.dt,
            )

        return jax.tree.map(lambda *trials: jnp.concatenate(trials), *map(around, DISTANCES))


def final_force(states, trial, model):
    return jnp.sum(states.plant.force[-1] ** 2)


def per_squared_distance(term: popsim.AbstractLossTerm) -> popsim.AbstractLossTerm:
    """The term relative to the squared distance of the reach, so that short reaches count like long ones."""

    def relative(states, trial, model):
        return term(states, trial, model) / jnp.sum(trial.targets.position[-1] ** 2)

    return popsim.FunctionTerm(term.name, relative)


def build_plant(reach: reference.Reach) -> popsim.plants.AbstractPlant:
    """The plant of the reference: explicit Euler, one step."""
    mass = popsim.plants.PointMass(reach.mass, solver=diffrax.Euler(), n_substeps=1)
    return Filtered(mass, reach.time_constant) if reach.n_filters else mass


def build_task(reach: reference.Reach, weight: float = 1.0) -> ReachesOfAnyDistance:
    """The loss is `weight` times J / g², J that of the reference and g the distance of the reach."""
    losses = popsim.losses
    cost = 1.0 * per_squared_distance(losses.PositionError(profile=losses.FinalStep()))
    cost = cost + reach.velocity_weight * per_squared_distance(losses.FinalVelocity())
    cost = cost + reach.effort_weight * per_squared_distance(losses.Effort())
    if reach.n_filters:
        force = popsim.FunctionTerm("final force", final_force)
        cost = cost + reach.force_weight * per_squared_distance(force)
    return ReachesOfAnyDistance(weight * cost, dt=reach.dt, n_steps=reach.n_steps)


def build_ensemble(reach: reference.Reach, n_members: int, key: jax.Array) -> popsim.SensorimotorLoop:
    """Untrained GRUs that see the hand at once and exactly."""
    plant, trials = build_plant(reach), build_task(reach).validation_trials()
    channels = {"vision": popsim.SensoryChannel(popsim.vision)}
    scaling = {"target": popsim.Scaling(0, 0.1), "vision": popsim.Scaling(0, [0.1, 0.1, 0.2, 0.2])}
    n_inputs = popsim.n_network_inputs(trials, plant, channels)

    def build(key):
        network = popsim.networks.GRUNetwork(n_inputs, N_UNITS, plant.n_commands, key=key)
        return popsim.SensorimotorLoop(network, plant, channels, scaling=scaling, dt=reach.dt)

    return popsim.make_ensemble(build, n_members, key=key)


def train(
    ensemble: popsim.SensorimotorLoop, reach: reference.Reach, n_batches: int, key: jax.Array
) -> popsim.SensorimotorLoop:
    """The trained ensemble. The loss is in percent: as it is, no gradient is as large as the clip norm."""
    rate = optax.cosine_decay_schedule(RATE, n_batches)
    task, optimizer = build_task(reach, weight=100), adam(rate, clip_norm=1.0)
    return train_networks(task, ensemble, optimizer, n_batches, BATCH_SIZE, key=key)


def evaluate(ensemble: popsim.SensorimotorLoop, reach: reference.Reach) -> tuple[np.ndarray, np.ndarray]:
    """Speeds [member, distance, direction, time] (m/s) and J / g² [member, trial], in double precision."""
    with jax.enable_x64(True):
        double = jax.tree.map(lambda x: x.astype(float) if eqx.is_inexact_array(x) else x, ensemble)
        tested = popsim.evaluate_ensemble(double, build_task(reach), key=jax.random.key(0))
        speeds = np.asarray(popsim.analysis.behaviour.hand_speed(tested.states.hand))
        by_distance = speeds.reshape(len(speeds), DISTANCES.size, N_DIRECTIONS, -1)
        return by_distance, np.asarray(tested.losses.total)


def check_dynamics(reach: reference.Reach) -> None:
    """Assert that the plant has the A and B of the reference on both axes, by finite differences."""
    with jax.enable_x64(True):
        plant = build_plant(reach)
        flat, unflatten = jax.flatten_util.ravel_pytree(plant.rest_state(jnp.zeros(2)))

        def step(x):
            state, command = unflatten(x[: flat.size]), x[flat.size :]
            after = popsim.plants.advance(plant, state, command, popsim.plants.Load(), dt=reach.dt)
            return jax.flatten_util.ravel_pytree(after)[0]

        up, down = (np.asarray(jax.vmap(step)(sign * jnp.eye(flat.size + 2))) for sign in (1.0, -1.0))
    A, B = reference.dynamics(reach)
    expected = np.kron(np.hstack([A[:-1, :-1], B[:-1, None]]), np.eye(2))
    np.testing.assert_allclose((up - down).T / 2, expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(up + down, 0, atol=1e-14)


def optimal_speeds(reach: reference.Reach) -> np.ndarray:
    """Speeds [distance, time] (m/s) of the optimal reaches over `DISTANCES`."""
    return np.stack([reference.optimal_reach(reach, distance)[0][:, 1] for distance in DISTANCES])


def shape_rows(name: str, speeds: np.ndarray, optimal: np.ndarray) -> list[Row]:
    """Speeds [member, distance, direction, time] beside optimal ones [distance, time]: the peak, when it is,
    the whole profile, and how the peak grows with the distance."""
    best, best_time = reference.peak_by_mean(optimal)[0], reference.peak_time(optimal)[0]
    late = 0.03 / best_time
    misses = np.sqrt(np.mean((speeds - optimal[:, None]) ** 2, axis=-1)) / optimal.max(axis=-1)[:, None]
    slopes, fits = reference.line(DISTANCES, speeds.max(axis=-1).mean(axis=-1))
    best_slope, _ = reference.line(DISTANCES, optimal.max(axis=-1))
    rows = []
    for member, profiles in enumerate(speeds):
        at, i = float(np.mean(reference.peak_time(profiles))), str(member)
        peak = float(np.mean(reference.peak_by_mean(profiles)))
        rows += [
            tolerance_row(f"{name}, peak / mean", i, peak, best, 0.02),
            Row(f"{name}, time of peak", i, at, best_time, gate=(1 - late, 1 + late)),
            upper_bound_row(f"{name}, RMSE / peak", i, float(np.mean(misses[member])), 0.03),
            tolerance_row(f"{name}, peak by distance", i, slopes[member], float(best_slope), 0.03),
            upper_bound_row(f"{name}, 1 - R²", i, 1 - fits[member], 1e-3),
        ]
    return sorted(rows, key=lambda row: row.condition)


def run(
    name: str, other_name: str, n_members: int, n_batches: int, seed: int
) -> tuple[list[Row], np.ndarray]:
    """Train and test on one plant: its rows and those of its controls, and the speeds."""
    reach, key = REACHES[name], popsim.key_stream(jax.random.key(seed), name)
    check_dynamics(reach)
    untrained = build_ensemble(reach, n_members, popsim.key_stream(key, "networks"))
    trained = train(untrained, reach, n_batches, popsim.key_stream(key, "training"))
    (before, costs_before), (speeds, costs) = evaluate(untrained, reach), evaluate(trained, reach)
    optimal, optimum = optimal_speeds(reach), reference.optimal_reach(reach, 1.0)[1]
    rows = cost_rows(f"{name}, J / g²", costs, optimum, HIGHEST_COST, gate_members=True)
    rows += shape_rows(name, speeds, optimal)
    controls = cost_rows(f"{name}, untrained, J / g²", costs_before, optimum, HIGHEST_COST, gate_members=True)
    controls += select_rows(shape_rows(f"{name}, untrained", before, optimal), "RMSE")
    swapped = shape_rows(f"{name} as {other_name}", speeds, optimal_speeds(REACHES[other_name]))
    controls += select_rows(swapped, "peak / mean", "RMSE", "peak by distance")
    return rows + negative_controls(controls), speeds


def select_rows(rows: list[Row], *names: str) -> list[Row]:
    """The rows of some numbers."""
    return [row for row in rows if any(name in row.condition.split(", ")[-1] for name in names)]


def main() -> int:
    """Train on both plants, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "", short_form="two members, fewer batches")
    n_members, n_batches = QUICK_SIZES if options.quick else SIZES
    rows, speeds = [], {}
    for name, other_name in zip(REACHES, reversed(REACHES), strict=True):
        began = time.perf_counter()
        new_rows, speeds[name] = run(name, other_name, n_members, n_batches, options.seed)
        rows += new_rows
        print(f"{name}: {n_batches} batches, {time.perf_counter() - began:.0f} s", flush=True)
    optimal = {name: optimal_speeds(reach) for name, reach in REACHES.items()}
    constants = {"least effort": reference.MIN_EFFORT, "least jerk": reference.MIN_JERK}
    for (name, profiles), (course, constant) in zip(optimal.items(), constants.items(), strict=True):
        rows.append(Row(f"{name}, optimum by {course}", "", reference.peak_by_mean(profiles)[0], constant))
    print_table(rows, "found", "reference")
    dt = REACHES["point mass"].dt
    print(*draw_figure(options.out, speeds, optimal, DISTANCES, dt, constants), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
