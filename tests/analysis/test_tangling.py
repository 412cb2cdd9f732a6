"""Tangling of a circle and of a figure of eight."""

import numpy as np
import pytest

from popsim.analysis.neural_activity import tangling

N_STEPS, DT = 200, 0.01
ANGLE = 2 * np.pi * np.arange(N_STEPS) / N_STEPS
SPEED = 2 * np.pi / (N_STEPS * DT)  # rad/s


def trajectory(*columns: np.ndarray) -> np.ndarray:
    """One trial of a member with five units, in which the columns are mixed at right angles."""
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    return (np.stack(columns, axis=-1) @ basis[: len(columns)])[None, None] + 2.0


@pytest.mark.parametrize("softening", [0.1, 0.5])
def test_a_circle_is_as_little_tangled_everywhere(softening):
    activity = trajectory(3 * np.cos(ANGLE), 3 * np.sin(ANGLE))
    found = tangling(activity, dt=DT, softening=softening)
    np.testing.assert_allclose(found, 4 * SPEED**2 / (4 + softening), rtol=1e-3)
    np.testing.assert_allclose(tangling(10 * activity, dt=DT, softening=softening), found)


def test_a_figure_of_eight_is_tangled_where_it_crosses_itself():
    """There the velocities differ by 2 and the states by nothing; the variance is 1."""
    found = tangling(trajectory(np.sin(ANGLE), np.sin(2 * ANGLE)), dt=DT)[0, 0]
    np.testing.assert_allclose(found[N_STEPS // 2], 4 * SPEED**2 / 0.1, rtol=1e-3)
    assert np.argmax(found) in (0, N_STEPS // 2) and found.min() < 0.5 * found.max()


def test_another_dimension_untangles_it():
    third = 2 * np.cos(ANGLE)
    flat = tangling(trajectory(np.sin(ANGLE), np.sin(2 * ANGLE)), dt=DT)
    assert tangling(trajectory(np.sin(ANGLE), np.sin(2 * ANGLE), third), dt=DT).max() < 0.2 * flat.max()


def test_trials_are_compared_with_one_another_and_members_are_not():
    there = trajectory(ANGLE, 0 * ANGLE)
    back = there[:, :, ::-1]
    alone = tangling(np.concatenate([there, back]), dt=DT)
    both = tangling(np.concatenate([there, back], axis=1), dt=DT)
    np.testing.assert_allclose(alone, 0.0, atol=1e-9)
    np.testing.assert_allclose(both, (2 * SPEED) ** 2 / (0.1 * ANGLE.var()), rtol=1e-6)


def test_many_states_are_compared_in_parts():
    activity = np.random.default_rng(0).normal(size=(1, 6, 100, 4))
    found = tangling(activity, dt=1.0)[0].ravel()
    states = activity[0].reshape(-1, 4)
    velocity = np.gradient(activity[0], axis=1, edge_order=2).reshape(-1, 4)
    apart, turned = (np.sum((x[:, None] - x) ** 2, axis=-1) for x in (states, velocity))
    added = 0.1 * states.var(axis=0).sum()
    np.testing.assert_allclose(found, np.max(turned / (apart + added), axis=1))


@pytest.mark.parametrize(
    ("activity", "options", "name"),
    [
        (np.ones((1, 1, 9, 2)), {}, "activity"),
        (np.ones((1, 1, 2, 2)), {}, "activity"),
        (np.ones((1, 1, 9, 2)), {"softening": 0.0}, "softening"),
    ],
)
def test_what_does_not_fit_is_refused(as_users_run, activity, options, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        tangling(activity, dt=DT, **options)
