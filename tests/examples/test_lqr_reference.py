"""The LQR and LQG reference against known values, a direct solution, and Monte Carlo."""

import dataclasses

import numpy as np
import pytest

lqr = pytest.importorskip("references.lqr", reason="examples/ is not beside the tests")

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


@pytest.mark.parametrize("reach", [NOISY, *LATE.values()])
def test_simulated_reaches_cost_what_is_expected(reach):
    costs = lqr.simulated_costs(reach, TARGET, n_trials=4000, seed=1)
    standard_error = costs.std(ddof=1) / costs.size**0.5
    assert standard_error < 0.005 * costs.mean()
    assert abs(costs.mean() - lqr.optimal_cost(reach, TARGET)) < 3 * standard_error


def test_the_optimum_is_the_least_squares_solution_for_all_commands_at_once():
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
