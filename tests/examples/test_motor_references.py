"""Optimal control and the mobility of limbs against direct solutions, known values and sampling."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import policy_gradient_lqr as script
import popsim
from references import expected_perturbation, flexible_feedback, force_field, lqr, regulator
from references import inertial_anisotropy as limbs
from references import limb_dynamics as posture
from references import speed_profiles as profiles

# LQR and LQG

TARGET = np.array([0.1, 0.0])
NOISY = lqr.Reach(force_noise=0.5)
LATE = {d: dataclasses.replace(NOISY, sensor_noise=(1e-3, 1e-2), delay=d) for d in (0, 5, 10)}


@pytest.mark.parametrize(
    ("reach", "cost"),
    [
        (lqr.Reach(), 5.03753e-4),
        (NOISY, 5.43106e-4),
        (LATE[0], 5.547e-4),
        (LATE[5], 5.942e-4),
        (LATE[10], 6.402e-4),
    ],
)
def test_the_known_optimal_costs(reach, cost):
    digits = len(f"{cost:e}".split("e")[0].rstrip("0")) - 2
    assert round(lqr.optimal_cost(reach, TARGET) * 1e4, digits) == round(cost * 1e4, digits)


def test_the_optimal_reach_is_the_least_squares_solution_for_all_commands_at_once():
    """Without noise the commands follow from one linear least-squares problem, without any recursion."""
    reach = lqr.Reach(mass=2.0, n_steps=30)
    steps_left = np.arange(reach.n_steps)[::-1]
    to_velocity = np.full(reach.n_steps, reach.dt / reach.mass)
    to_position = to_velocity * reach.dt * steps_left
    rows = [
        to_position[None],
        reach.velocity_weight**0.5 * to_velocity[None],
        reach.effort_weight**0.5 * np.eye(reach.n_steps),
    ]
    wanted = np.zeros(reach.n_steps + 2)
    wanted[0] = TARGET[0]
    commands, cost, *_ = np.linalg.lstsq(np.vstack(rows), wanted)
    assert lqr.optimal_cost(reach, TARGET) == pytest.approx(cost[0], rel=1e-10)
    states = lqr.optimal_reach(reach, TARGET)
    np.testing.assert_allclose(states[:, 2], np.cumsum(to_velocity * commands), rtol=0, atol=1e-12)
    np.testing.assert_allclose(states[:, [1, 3]], 0, rtol=0, atol=1e-15)


# Regulator

SHORT = regulator.Regulator(n_steps=6, velocity_weight=0.3, effort_weight=0.2)
STARTS = np.random.default_rng(0).standard_normal((4, 2))


def test_the_lowest_cost_is_the_least_squares_solution_for_all_forces_at_once():
    n, powers = SHORT.n_steps, [np.linalg.matrix_power(SHORT.A, i) for i in range(SHORT.n_steps + 1)]
    root = np.sqrt(SHORT.Q)
    of_start = np.vstack([root @ powers[t + 1] for t in range(n)] + [np.zeros((n, 2))])
    of_force = np.zeros((2 * n, n))
    for t in range(n):
        for s in range(t + 1):
            of_force[2 * t : 2 * t + 2, s] = root @ powers[t - s] @ SHORT.B
    of_force = np.vstack([of_force, SHORT.effort_weight**0.5 * np.eye(n)])
    for start, cost in zip(STARTS, regulator.optimal_costs(SHORT, STARTS), strict=True):
        forces = np.linalg.lstsq(of_force, -of_start @ start, rcond=None)[0]
        assert cost == pytest.approx(np.sum((of_start @ start + of_force @ forces) ** 2), rel=1e-10)


def test_moments_of_the_estimator_are_those_of_samples():
    gains, x, std, baseline = np.array([-0.7, 0.4]), np.array([0.8, -1.2]), 0.6, 0.3
    noise = np.random.default_rng(1).standard_normal(400_000)
    force = gains @ x + std * noise
    p, v = x[0] + SHORT.dt * x[1], x[1] + SHORT.dt * force
    cost = SHORT.position_weight * p**2 + SHORT.velocity_weight * v**2 + SHORT.effort_weight * force**2
    estimates = ((cost - baseline) * noise / std)[:, None] * x
    mean, covariance = regulator.estimator_moments(SHORT, gains, x, std, baseline)
    errors = np.sqrt(np.diag(covariance) / len(noise))
    np.testing.assert_array_less(np.abs(estimates.mean(axis=0) - mean), 3.5 * errors)
    np.testing.assert_allclose(np.cov(estimates.T), covariance, rtol=0.03)


def test_the_environment_costs_what_the_reference_says():
    gains = np.array([-1.0, -0.9])
    network = script.LinearPolicy(jnp.asarray(gains))
    model = popsim.NetworkModel(network, policy=script.Deterministic(1), dt=script.REGULATOR.dt)
    ensemble = jax.tree.map(lambda leaf: leaf[None], model)
    expected = regulator.gain_costs(script.REGULATOR, gains, script.test_starts())
    np.testing.assert_allclose(script.costs_of(ensemble)[0], expected, rtol=1e-4)


# Force field


@pytest.mark.parametrize(
    ("mass", "strength", "deviations", "ratio"),
    [
        (1.0, 3.0, (-1.240, 1.077, 2.098), None),
        (1.0, 5.0, (-1.977, 1.760, 3.592), 1.333),
        (2.0, 13.0, (-3.47, 1.89, 4.92), 1.545),
        (2.0, 15.0, (-3.72, 2.04, 5.64), 1.754),
    ],
)
def test_the_known_deviations_and_costs(mass, strength, deviations, ratio):
    reach = lqr.Reach(mass=mass)
    paths = force_field.phase_paths(reach, TARGET[None], strength)
    found = [100 * force_field.deviation(path, TARGET[None])[0] for path in paths.values()]
    assert [*paths] == ["naive", "adapted", "after-effect"]
    np.testing.assert_allclose(found, deviations, rtol=0, atol=6e-3 if mass == 2 else 6e-4)
    _, cost = force_field.controlled_reach(reach, TARGET, field=strength, expected=strength)
    if ratio is not None:
        assert cost / lqr.optimal_cost(reach, TARGET) == pytest.approx(ratio, abs=6e-4)


def test_deviation_has_the_sign_of_the_side_in_any_direction():
    angle = np.linspace(0, 2 * np.pi, 5)[:-1]
    targets = 0.1 * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    left = np.stack([-np.sin(angle), np.cos(angle)], axis=-1)
    along = np.linspace(0, 1, 7)[:, None]
    bump = np.array([0, 0.01, 0.02, 0.01, -0.03, 0, 0])[:, None]
    paths = targets[:, None] * along + left[:, None] * bump
    np.testing.assert_allclose(force_field.deviation(paths, targets), -0.03, rtol=1e-12)
    np.testing.assert_allclose(force_field.deviation(np.stack([paths, -paths]), targets)[1], 0.03, rtol=1e-12)


# Speed profiles

PLAIN, FILTERED = profiles.Reach(), profiles.Reach(n_filters=2)


@pytest.mark.parametrize("reach", [PLAIN, profiles.Reach(n_filters=1), FILTERED])
def test_the_optimum_of_filtered_commands_is_the_least_squares_solution_for_all_commands_at_once(reach):
    def final(commands):
        p = v = 0.0
        forces = [0.0] * reach.n_filters  # the last moves the mass
        for u in commands:
            sources = [u, *forces]
            moving = sources[-1]
            p, v = p + reach.dt * v, v + reach.dt / reach.mass * moving
            forces = [
                f + reach.dt / reach.time_constant * (s - f) for f, s in zip(forces, sources, strict=False)
            ]
        weights = np.sqrt([1.0, reach.velocity_weight, reach.force_weight])
        return weights * [p, v, forces[-1] if forces else 0.0]

    unit = np.eye(reach.n_steps)
    rows = np.vstack([np.transpose([final(u) for u in unit]), reach.effort_weight**0.5 * unit])
    wanted = np.zeros(len(rows))
    wanted[0] = 0.1
    commands, residual, *_ = np.linalg.lstsq(rows, wanted)
    states, cost = profiles.optimal_reach(reach, 0.1)
    assert cost == pytest.approx(residual[0], rel=1e-8)
    assert states[-1, 0] == pytest.approx(final(commands)[0], rel=1e-8)


def test_measures_of_a_known_profile():
    times = np.linspace(0, 1, 1001)[1:]
    speeds = np.stack([30 * times**2 * (1 - times) ** 2, 2 * times])
    np.testing.assert_allclose(profiles.peak_by_mean(speeds), [profiles.MIN_JERK, 2], rtol=2e-3)
    np.testing.assert_allclose(profiles.peak_time(speeds), [0.5, 1.0], atol=1e-12)
    peaks = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 1.0]])
    slope, r_squared = profiles.line(np.array([1.0, 2.0, 3.0]), peaks)
    np.testing.assert_allclose(slope, [1, 0], atol=1e-12)
    np.testing.assert_allclose(r_squared, [1, 0], atol=1e-12)


# Inertial anisotropy


def energy(limb, angles, velocities):
    """The kinetic energy of two rods, from the velocities of their centres of mass."""
    absolute, turning = np.cumsum(angles), np.cumsum(velocities)
    normal = np.stack([-np.sin(absolute), np.cos(absolute)], axis=1)
    to_first = limb["c"][0] * turning[0] * normal[0]
    to_second = limb["l"][0] * turning[0] * normal[0] + limb["c"][1] * turning[1] * normal[1]
    moving = limb["m"][0] * to_first @ to_first + limb["m"][1] * to_second @ to_second
    return (moving + limb["i"] @ turning**2) / 2


@pytest.mark.parametrize("name", limbs.LIMBS)
def test_the_mobility_is_that_of_two_moving_rods(name):
    limb = {key: np.array(values) for key, values in limbs.LIMBS[name].items()}
    for shoulder, elbow in ((0.3, 1.0), (0.8, 1.6), (1.2, 2.4)):
        axes = np.eye(2)
        inertia = [[energy(limb, (shoulder, elbow), a + b) for a in axes] for b in axes]
        alone = [energy(limb, (shoulder, elbow), a) for a in axes]
        inertia = np.array(inertia) - np.add.outer(alone, alone)
        ends = [limb["l"][0], limb["l"][1]]
        absolute = np.cumsum([shoulder, elbow])
        tip = np.stack([-np.sin(absolute), np.cos(absolute)]) * ends
        jacobian = np.stack([tip.sum(axis=1), tip[:, 1]], axis=1)
        wanted = jacobian @ np.linalg.inv(inertia) @ jacobian.T
        np.testing.assert_allclose(limbs.mobility(limb, shoulder, elbow), wanted, rtol=1e-12)


# Corrections to a point and to a bar


@pytest.mark.parametrize("width", [0.0, 1.0])
def test_an_optimal_correction_is_the_least_squares_solution_after_the_push(width):
    """Once a push is felt, all later commands follow from one least-squares problem."""
    reach = flexible_feedback.Reach(n_steps=30, delay=3)
    cost, path = flexible_feedback.play(reach, width, 20.0, 10)
    A, B = flexible_feedback.dynamics(reach)
    W = flexible_feedback.final_weights(reach, width) ** 0.5

    def best(state, n_steps):
        """The commands [step, 2] of least cost from a state."""
        effects = np.hstack([np.linalg.matrix_power(A, n_steps - 1 - t) @ B for t in range(n_steps)])
        rows = np.vstack([W @ effects, reach.effort_weight**0.5 * np.eye(2 * n_steps)])
        missing = np.concatenate([-W @ np.linalg.matrix_power(A, n_steps) @ state, np.zeros(2 * n_steps)])
        return np.linalg.lstsq(rows, missing, rcond=None)[0].reshape(-1, 2)

    state, commands = np.concatenate([-flexible_feedback.TARGET, np.zeros(2)]), []
    planned = list(best(state, 30))
    for step in range(30):
        if step == 14:  # the push of step 10 moves what is seen from step 14 on: 11 steps, and 3 late
            planned = list(best(state, 30 - step))
        commands.append(planned.pop(0))
        push = np.array([0.0, 20.0 if step == 10 else 0.0])
        state = A @ state + B @ (commands[-1] + push)
        np.testing.assert_allclose(path[step], state[:2] + flexible_feedback.TARGET, atol=1e-9)
    expected = state @ W @ W @ state + reach.effort_weight * np.sum(np.square(commands))
    np.testing.assert_allclose(cost, expected, rtol=1e-8)


# Limb dynamics


def test_the_inertia_matrix_is_that_of_two_moving_rods():
    limb = posture.Limb()
    rods = {"m": limb.mass, "l": limb.length, "c": limb.center_of_mass, "i": np.array(limb.inertia)}
    axes = np.eye(2)
    for elbow in (0.0, 1.0, 2.4):
        energies = np.array([[energy(rods, (0.4, elbow), a + b) for a in axes] for b in axes])
        alone = np.diag(energies) / 4  # twice the velocity has four times the energy
        wanted = energies - np.add.outer(alone, alone)
        np.testing.assert_allclose(posture.inertia_matrix(limb, elbow), wanted, rtol=1e-12)


def test_the_best_answer_is_the_least_squares_solution_for_all_commands_at_once():
    """Of commands that are the same under all loads until one is felt, and free from then on."""
    hold = posture.Hold(n_steps=20, onset=3, delay=4, effort_weight=2e-3)
    inertia = posture.inertia_matrix(posture.Limb(), 1.2)
    loads = np.array([[1.0, 0.3], [-0.3, 1.0], [-1.0, -0.3], [0.3, -1.0]])
    steps = np.arange(hold.n_steps)
    since = np.tril(steps[:, None] - steps + 0.5)  # after a torque: half a step in its own, then whole ones
    to_angles = np.kron(hold.dt**2 * since, np.linalg.inv(inertia))
    n_all, n_common = 2 * hold.n_steps, 2 * (hold.onset + hold.delay + 1)
    n_own = n_all - n_common
    rows, wanted = [], []
    for i, load in enumerate(loads):
        chosen = np.zeros((n_all, n_common + len(loads) * n_own))
        chosen[:n_common, :n_common] = np.eye(n_common)
        chosen[n_common:, n_common + i * n_own :][:, :n_own] = np.eye(n_own)
        rows += [to_angles @ chosen, hold.effort_weight**0.5 * chosen]
        loaded = np.outer(steps >= hold.onset, load).ravel()
        wanted += [-to_angles @ loaded, np.zeros(n_all)]
    solution, cost, *_ = np.linalg.lstsq(np.vstack(rows), np.concatenate(wanted))
    found = posture.answer(hold, inertia, loads)
    assert found.costs.sum() == pytest.approx(cost[0], rel=1e-9)
    late = solution[n_common:].reshape(len(loads), -1, 2)
    np.testing.assert_allclose(found.commands[:, n_common // 2 :], late, rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.commands[:, : n_common // 2], 0, rtol=0, atol=1e-12)


# Expected perturbations


@pytest.mark.parametrize("felt_after", [0, 2, 4])
@pytest.mark.parametrize("chance", [0.25, 0.5, 1.0])
def test_the_best_answer_to_expected_pushes_is_the_best_of_all_policies(chance, felt_after):
    """A policy has a command for each step and for each thing that can be known then; least squares."""
    hold = expected_perturbation.Hold(
        n_steps=16, onsets=(2, 5), push_steps=3, early=2, late=4, effort_weight=1e-4
    )
    pushes = expected_perturbation.all_pushes(hold)
    is_met = pushes.chance == chance
    known, chosen = {}, []
    for side, onset in zip(pushes.side[is_met], pushes.onset[is_met], strict=True):
        for t in range(hold.n_steps):
            felt, seen = t > onset + felt_after, t > onset + hold.late
            chosen.append(known.setdefault((t, felt and onset, seen and side), len(known)))
    n_pushes, steps = int(is_met.sum()), np.arange(hold.n_steps)
    commands = np.eye(len(known))[chosen].reshape(n_pushes, hold.n_steps, -1)
    to_positions = hold.dt**2 * np.tril(
        steps[:, None] - steps + 0.5
    )  # half a step in its own, then whole ones
    since = steps - pushes.onset[is_met][:, None]
    loads = hold.force * pushes.side[is_met][:, None] * ((since >= 0) & (since < hold.push_steps))
    often = np.sqrt(pushes.weights[is_met])[:, None]
    rows = [
        often[..., None] * (to_positions @ commands),
        hold.effort_weight**0.5 * often[..., None] * commands,
    ]
    wanted = np.concatenate([-often * (loads @ to_positions.T), np.zeros_like(loads)])
    solution, cost, *_ = np.linalg.lstsq(np.concatenate(rows).reshape(-1, len(known)), wanted.ravel())
    found = expected_perturbation.answer(hold, pushes, felt_after)
    assert pushes.weights[is_met] @ found.costs[is_met] == pytest.approx(cost[0], rel=1e-9)
    np.testing.assert_allclose(found.commands[is_met], commands @ solution, rtol=0, atol=1e-7)


def test_early_commands_of_the_best_controller_are_a_line_over_the_chance():
    hold = expected_perturbation.Hold()
    pushes = expected_perturbation.all_pushes(hold)
    assert pushes.weights.sum() == pytest.approx(1)
    for delay in (hold.early, hold.late):
        commands = expected_perturbation.answer(hold, pushes, delay).commands
        slope, r_squared = expected_perturbation.line(
            expected_perturbation.early_commands(hold, pushes, commands)
        )
        assert slope < 0 and r_squared == pytest.approx(1)
    assert expected_perturbation.line(np.array([-1, -1, 0, 1, 1.0])) == pytest.approx((1.2, 0.9))
