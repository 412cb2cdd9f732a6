"""The optimal reaches in a curl field against known values, a direct solution, and the equation of motion."""

import numpy as np
import pytest

force_field = pytest.importorskip("references.force_field", reason="examples/ is not beside the tests")
lqr = pytest.importorskip("references.lqr", reason="examples/ is not beside the tests")

TARGET = np.array([0.1, 0.0])


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


def test_the_optimum_is_the_least_squares_solution_for_all_commands_at_once():
    """In the complex plane F = -i b v; the commands follow from one linear problem, without recursion."""
    reach, strength = lqr.Reach(n_steps=30), 5.0
    turn = 1 - 1j * strength * reach.dt / reach.mass  # of the velocity, at each step
    velocity = np.zeros((reach.n_steps + 1, reach.n_steps), complex)  # after each step, of each command
    for t in range(reach.n_steps):
        velocity[t + 1] = turn * velocity[t]
        velocity[t + 1, t] += reach.dt / reach.mass
    position = reach.dt * np.cumsum(velocity, axis=0)
    final = [position[-2][None], reach.velocity_weight**0.5 * velocity[-1][None]]
    rows = np.vstack([*final, reach.effort_weight**0.5 * np.eye(reach.n_steps)])
    wanted = np.zeros(reach.n_steps + 2)
    wanted[0] = TARGET[0]
    commands, residual, *_ = np.linalg.lstsq(rows, wanted)
    states, cost = force_field.controlled_reach(reach, TARGET, field=strength, expected=strength)
    assert cost == pytest.approx(residual[0], rel=1e-9)
    expected = position[:-1] @ commands
    np.testing.assert_allclose(states[:, 0] + 1j * states[:, 1], expected, rtol=0, atol=1e-12)


def test_deviation_has_the_sign_of_the_side_in_any_direction():
    angle = np.linspace(0, 2 * np.pi, 5)[:-1]
    targets = 0.1 * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    left = np.stack([-np.sin(angle), np.cos(angle)], axis=-1)
    along = np.linspace(0, 1, 7)[:, None]
    bump = np.array([0, 0.01, 0.02, 0.01, -0.03, 0, 0])[:, None]
    paths = targets[:, None] * along + left[:, None] * bump
    np.testing.assert_allclose(force_field.deviation(paths, targets), -0.03, rtol=1e-12)
    np.testing.assert_allclose(force_field.deviation(np.stack([paths, -paths]), targets)[1], 0.03, rtol=1e-12)
