import jax
import jax.numpy as jnp
import numpy as np
import pytest
from motor_trials import CENTER, WORKSPACE, assert_uniform, many_trials

from popsim.distributions import Uniform
from popsim.tasks import RandomWalk, SumOfSinusoids, Tracking

PATHS = {"sinusoids": SumOfSinusoids(), "walk": RandomWalk()}
HALF = np.array([0.15, 0.1])
EVEN = jnp.linspace(0.0, 10.0, 1001)


@pytest.fixture(params=PATHS.values(), ids=PATHS)
def path(request):
    return request.param


def many_paths(path, key, n=2000):
    return jax.jit(jax.vmap(lambda key: path(EVEN, WORKSPACE, key=key)))(jax.random.split(key, n))


def test_the_target_waits_then_sets_off_slowly_and_never_jumps(path, getkey):
    trials = many_trials(Tracking(WORKSPACE, path, start=Uniform(0.1, 0.5)), getkey(), 500)
    moves = np.asarray(trials.timeline.events["target moves"])
    assert_uniform(0.01 * moves, 0.095, 0.505)
    shown, asked = np.asarray(trials.inputs["target"]), np.asarray(trials.targets.position)
    np.testing.assert_array_equal(trials.init.position, shown[:, 0])
    np.testing.assert_array_equal(asked[:, :-1], shown[:, 1:])
    waits = np.arange(300) <= moves[:, None]
    np.testing.assert_allclose((shown - shown[:, :1])[waits], 0.0, atol=1e-7)
    assert np.mean(np.ptp(shown[:, 250:], axis=1) > 0.001) > 0.9
    speed = np.linalg.norm(trials.targets.velocity, axis=-1)
    ramp = np.arange(300) - moves[:, None] + 1
    assert np.all(speed[ramp <= 0] == 0)
    early, late = speed[ramp == 10].mean(), speed[ramp == 100].mean()
    assert 0 < early < 0.3 * late
    assert np.abs(np.diff(speed, axis=1)).max() < 0.03


def test_the_velocity_asked_for_is_that_of_the_target(path, getkey):
    trials = many_trials(Tracking(WORKSPACE, path, dt=0.002, duration=2.0), getkey(), 50)
    position, velocity = np.asarray(trials.targets.position), np.asarray(trials.targets.velocity)
    between = (position[:, 2:] - position[:, :-2]) / 0.004
    np.testing.assert_allclose(velocity[:, 1:-1], between, atol=2e-3)


def test_a_path_keeps_to_the_workspace(path, getkey):
    position = np.asarray(many_paths(path, getkey(), 200).position)
    assert np.all(np.abs(position - CENTER) <= HALF + 1e-6)
    assert np.all(np.abs(position - CENTER).max((0, 1)) > 0.9 * HALF)


def test_each_sinusoid_has_its_amplitude_and_a_phase_of_its_own(getkey):
    path = SumOfSinusoids([0.2, 0.5], [0.5, 0.3])
    position = np.asarray(many_paths(path, getkey()).position)[:, :1000]
    parts = [
        2
        * np.mean((position - CENTER) * np.exp(-2j * np.pi * f * np.asarray(EVEN[:1000]))[:, None], 1)
        / HALF
        for f in (0.2, 0.5)
    ]
    for part, amplitude in zip(parts, (0.5, 0.3), strict=True):
        np.testing.assert_allclose(np.abs(part), amplitude, rtol=1e-3)
        assert_uniform(np.angle(part), -np.pi, np.pi)
    phases = np.angle(np.concatenate(parts, axis=1))
    np.testing.assert_allclose(np.corrcoef(np.exp(1j * phases).T), np.eye(4), atol=5 / 2000**0.5)


def test_a_random_walk_has_its_speed_and_forgets_it(getkey):
    velocity = np.asarray(many_paths(RandomWalk(0.05, 0.2), getkey()).velocity)
    np.testing.assert_array_equal(velocity[:, 0], 0.0)
    np.testing.assert_allclose(velocity[:, 200:].std((0, 1)), 0.05, rtol=0.03)
    now, then = velocity[:, 500].ravel(), velocity[:, 520].ravel()
    np.testing.assert_allclose(np.corrcoef(now, then)[0, 1], 2 * np.exp(-1), atol=0.08)
    np.testing.assert_allclose(np.corrcoef(now, velocity[:, 700].ravel())[0, 1], 0.0, atol=0.1)
    assert np.abs(np.diff(velocity, axis=1)).std() < 0.1 * 0.05
