"""The optimal speed profiles against a direct solution."""

import numpy as np
import pytest

profiles = pytest.importorskip("references.speed_profiles", reason="examples/ is not beside the tests")

PLAIN, FILTERED = profiles.Reach(), profiles.Reach(n_filters=2)


@pytest.mark.parametrize("reach", [PLAIN, profiles.Reach(n_filters=1), FILTERED])
def test_the_optimum_is_the_least_squares_solution_for_all_commands_at_once(reach):
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
