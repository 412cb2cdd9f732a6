"""Flip-flops and path integration: pulses, walks, what is shown of them, and what is asked for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import many_trials, share_error, validation_trials

from popsim.tasks import FlipFlop, MultiTask, PathIntegration, huang2025, integrate_velocity
from popsim.tasks.dynamics import SLOWER_AT_WALL, SPEED, integration_error


def last_signs(pulses):
    held, signs = pulses[0], []
    for now in pulses:
        held = np.where(now != 0, now, held)
        signs.append(held)
    return np.array(signs)


@pytest.fixture(scope="module")
def flips():
    return many_trials(FlipFlop(), jax.random.key(2))


def test_outputs_should_hold_the_sign_of_the_last_pulse_of_their_own_channel(flips):
    for pulses, values in zip(flips.inputs["pulses"][:50], flips.targets.values[:50], strict=True):
        np.testing.assert_array_equal(values, last_signs(pulses))
    assert flips.targets.values.shape == (2000, 100, 3) and np.all(flips.targets.counts == 1)


def test_pulses_come_on_each_channel_alone_with_the_probability_and_either_sign(flips):
    pulses = flips.inputs["pulses"]
    assert np.all(abs(pulses[:, 0]) == 1)
    later = pulses[:, 1:]
    n = later[..., 0].size
    assert set(np.unique(later)) == {-1.0, 0.0, 1.0}
    np.testing.assert_allclose((later != 0).mean(axis=(0, 1)), 0.06, atol=share_error(0.06, n))
    np.testing.assert_allclose(later[later != 0].mean(), 0, atol=5 / (0.18 * n) ** 0.5)
    correlation = np.corrcoef((later != 0).reshape(-1, 3).T)
    np.testing.assert_allclose(correlation, np.eye(3), atol=5 / n**0.5)
    following = np.mean((later[:, 1:] != 0) & (later[:, :-1] != 0))
    np.testing.assert_allclose(following, 0.06**2, atol=share_error(0.0036, 3 * n))


def test_first_bits_are_the_first_pulses_and_all_come_in_validation(flips):
    np.testing.assert_array_equal(flips.conditions["first bits"], flips.inputs["pulses"][:, 0] > 0)
    np.testing.assert_allclose(flips.conditions["first bits"].mean(0), 0.5, atol=share_error(0.5, 2000))
    validation = validation_trials(FlipFlop())
    assert len({tuple(bits) for bits in validation.conditions["first bits"]}) == 8
    np.testing.assert_array_equal(validation.conditions["first bits"], validation.inputs["pulses"][:, 0] > 0)
    assert np.any(validation.inputs["pulses"][0, 1:] != validation.inputs["pulses"][1, 1:])


DT, N_PULSE = 0.05, 2
estimates = jax.jit(jax.vmap(integrate_velocity))


@pytest.fixture(scope="module")
def trials():
    return many_trials(PathIntegration(), jax.random.key(1))


def test_the_rat_stays_in_the_box_and_starts_anywhere(trials):
    positions, conditions = trials.targets.values, trials.conditions
    assert np.abs(positions).max() <= 1.1 and np.abs(positions).max() > 1.09
    np.testing.assert_array_equal(positions[:, :N_PULSE], np.repeat(conditions["start"][:, None], 2, axis=1))
    np.testing.assert_array_equal(positions[:, -1], conditions["end"])
    np.testing.assert_allclose(conditions["start"].mean(0), 0, atol=5 * 2.2 / (12 * 2000) ** 0.5)
    np.testing.assert_allclose(conditions["start"].std(0), 2.2 / 12**0.5, rtol=0.05)
    first = positions[:, N_PULSE] - positions[:, 0]
    moves = np.linalg.norm(first, axis=1) > 1e-3
    heading = np.arctan2(first[:, 1], first[:, 0])
    is_inside = np.abs(positions[:, N_PULSE]).max(1) < 1.099
    turned = np.angle(np.exp(1j * (heading - conditions["heading"])))
    np.testing.assert_allclose(turned[moves & is_inside], 0, atol=1e-3)


def test_speeds_are_rayleigh_and_headings_turn_as_much_as_asked():
    """In a large box, away from the walls."""
    trials = many_trials(PathIntegration(width=100.0, turning=0.5, noise=0.0), jax.random.key(2))
    meets_no_wall = np.abs(trials.targets.values).max(axis=(1, 2)) < 49.9
    velocity = trials.inputs["velocity"][meets_no_wall, N_PULSE:]
    speed = np.linalg.norm(velocity, axis=-1)
    np.testing.assert_allclose(speed.mean(), SPEED * (np.pi / 2) ** 0.5, rtol=0.02)
    np.testing.assert_allclose((speed**2).mean(), 2 * SPEED**2, rtol=0.04)
    heading = np.arctan2(velocity[..., 1], velocity[..., 0])
    turns = np.angle(np.exp(1j * np.diff(heading, axis=1)))[speed[:, 1:] > 0.1]
    np.testing.assert_allclose(turns.std(), 0.5 * DT**0.5, rtol=0.02)
    squares = speed**2 / (2 * SPEED**2) - 1  # of correlation exp(-2 t / 0.7 s)
    for lag in (2, 10):
        found = (squares[:, lag:] * squares[:, :-lag]).mean() / (squares**2).mean()
        np.testing.assert_allclose(found, np.exp(-2 * lag * DT / 0.7), atol=0.06)


def test_at_a_wall_the_rat_turns_along_it_and_slows_down():
    task = PathIntegration(turning=0.0, duration=1.0)
    for angle, turned in ((0.3, np.pi / 2), (-0.3, -np.pi / 2), (2.0, 2.0)):
        turn = task._turn_at_wall(jnp.array([1.08, 0.2]), jnp.array(angle))
        np.testing.assert_allclose(angle + turn, turned, rtol=1e-5)
    away = task._turn_at_wall(jnp.array([1.06, 0.2]), jnp.array(0.3))
    assert away == 0
    path = task._walk(jnp.array([0.0, -1.09]), jnp.array(-1.2), key=jax.random.key(0))
    free = task._walk(jnp.array([0.0, 0.0]), jnp.array(-1.2), key=jax.random.key(0))
    step = np.diff(np.asarray(path), axis=0)
    np.testing.assert_allclose(step[:, 1], 0, atol=1e-6)  # parallel to the bottom from then on
    assert np.all(step[:, 0] > 0)
    slowed = (path[0] - jnp.array([0.0, -1.09]))[0] / free[0, 0]
    np.testing.assert_allclose(slowed, SLOWER_AT_WALL, rtol=1e-4)


def test_inputs_are_the_start_and_then_the_velocity_with_noise(trials):
    start, velocity = trials.inputs["start"], trials.inputs["velocity"]
    np.testing.assert_array_equal(start[:, :N_PULSE], trials.targets.values[:, :N_PULSE])
    assert np.all(start[:, N_PULSE:] == 0) and np.all(velocity[:, :N_PULSE] == 0)
    moved = np.diff(trials.targets.values, axis=1)[:, N_PULSE - 1 :] / DT
    noise = velocity[:, N_PULSE:] - moved
    np.testing.assert_allclose(noise.std(axis=(0, 1)), 0.1 / DT**0.5, rtol=0.02)
    np.testing.assert_allclose((noise[:, 1:] * noise[:, :-1]).mean(), 0, atol=5 * 0.2 / (2000 * 78) ** 0.5)
    np.testing.assert_array_equal(trials.timeline.events["movement on"], N_PULSE)


@pytest.mark.parametrize("form", ["components", "speed and heading"])
def test_the_perfect_integrator_is_off_by_what_the_noise_adds_up_to(form, trials):
    if form != "components":
        trials = many_trials(PathIntegration(velocity_input=form), jax.random.key(1))
        np.testing.assert_allclose(
            np.linalg.norm(trials.inputs["heading"][:, N_PULSE:], axis=-1), 1, rtol=1e-5
        )
    errors = np.asarray(estimates(trials)) - trials.targets.values
    seconds = DT * np.arange(1, 41)
    found = (errors[:, N_PULSE:] ** 2).mean(axis=(0, 2)) ** 0.5
    np.testing.assert_allclose(found, integration_error(0.1, jnp.asarray(seconds)), rtol=0.06)
    np.testing.assert_allclose(errors[:, :N_PULSE], 0, atol=1e-6)


@pytest.mark.full
def test_the_suite_of_four_tasks_can_be_mixed():
    suite = huang2025()
    assert [*suite] == ["flip-flop", "sine-generation", "delayed-discrimination", "path-integration"]
    trials = many_trials(MultiTask(suite), jax.random.key(4))
    assert trials.inputs["task"].shape == (2000, 100, 4) and trials.targets.values.shape == (2000, 100, 3)
    _, sines, comparisons, paths = (trials.conditions["task"] == index for index in range(4))
    np.testing.assert_array_equal(np.unique(trials.conditions["frequency"][sines]), np.arange(1, 31))
    f1, f2 = (trials.conditions[name][comparisons] for name in ("f1", "f2"))
    assert (f1.min(), f2.max()) == (2, 10) and not np.any(f1 == f2)
    assert {5, 20} <= {*np.diff(trials.timeline.epochs["delay"][comparisons]).ravel()} <= {*range(5, 21)}
    assert 4.9 < np.abs(trials.targets.values[paths]).max() <= 5
