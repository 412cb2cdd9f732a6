"""The cost of linear control of a point mass, and the spread of a policy gradient. Numpy; no popsim.

The state x = (p, v) of a mass is stepped by x' = A x + B u. Its cost is the sum over T steps of
x'ᵀ Q x' + r u². A linear policy draws u = k·x + σ ε, with ε standard normal; its mean action is k·x. The
best control with any gains is u_t = -L_t x_t, from the recursion of the linear-quadratic regulator, as in
`lqr.py`.

The gradient estimate of one step (REINFORCE; Williams 1992, Mach Learn 8:229-256) of the cost c, with
baseline b, is g = (c - b) ε x / σ. As c = c_0 + c_1 ε + c_2 ε², with
c_0 = mᵀ Q m + r (k·x)², c_1 = 2 σ (Bᵀ Q m + r k·x), c_2 = σ² (Bᵀ Q B + r) and m = (A + B k) x, the moments
of ε give

    E g = c_1 x / σ,    Var g = ((c_0 - b)² + 6 (c_0 - b) c_2 + 15 c_2² + 2 c_1²) x x' / σ².

The first is the gradient of the mean cost, 2 (Bᵀ Q m + r k·x) x. (Both are derived here and checked by
sampling.)
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Regulator:
    """A mass that is brought to rest at the origin.

    - `dt` (s), `n_steps`: the time step, and their number T. The mass is 1 kg.
    - `position_weight`, `velocity_weight`, `effort_weight`: the diagonal of Q, and r.
    """

    dt: float = 0.1
    n_steps: int = 20
    position_weight: float = 1.0
    velocity_weight: float = 0.1
    effort_weight: float = 0.1

    @property
    def A(self) -> np.ndarray:
        """The matrix of the state [2, 2]."""
        return np.array([[1.0, self.dt], [0.0, 1.0]])

    @property
    def B(self) -> np.ndarray:
        """What a unit of force adds to the state [2]."""
        return np.array([0.0, self.dt])

    @property
    def Q(self) -> np.ndarray:
        """The weights of the state [2, 2]."""
        return np.diag([self.position_weight, self.velocity_weight])


def optimal_costs(regulator: Regulator, starts: np.ndarray) -> np.ndarray:
    """The lowest cost of any control from each start [trial, 2]: x_0' S_0 x_0 of the Riccati recursion."""
    A, B, Q, r = regulator.A, regulator.B[:, None], regulator.Q, regulator.effort_weight
    S = np.zeros((2, 2))
    for _ in range(regulator.n_steps):
        later = S + Q
        L = np.linalg.solve(r + B.T @ later @ B, B.T @ later @ A)
        S = A.T @ later @ (A - B @ L)
    return np.einsum("ij,jk,ik->i", starts, S, starts)


def gain_costs(regulator: Regulator, gains: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The cost of u = k·x from each start [trial, 2], step by step, for k the same at all steps [2]."""
    x, costs = starts.T, np.zeros(len(starts))
    for _ in range(regulator.n_steps):
        force = gains @ x
        x = np.stack([x[0] + regulator.dt * x[1], x[1] + regulator.dt * force])
        costs += regulator.position_weight * x[0] ** 2 + regulator.velocity_weight * x[1] ** 2
        costs += regulator.effort_weight * force**2
    return costs


def estimator_moments(
    regulator: Regulator, gains: np.ndarray, x: np.ndarray, std: float, baseline: float
) -> tuple[np.ndarray, np.ndarray]:
    """The mean [2] and the covariance [2, 2] of the estimate of one step from the state x [2]."""
    A, B, Q, r = regulator.A, regulator.B, regulator.Q, regulator.effort_weight
    force = gains @ x
    m = A @ x + B * force
    c_0, c_2 = m @ Q @ m + r * force**2 - baseline, std**2 * (B @ Q @ B + r)
    c_1 = 2 * std * (B @ Q @ m + r * force)
    variance = (c_0**2 + 6 * c_0 * c_2 + 15 * c_2**2 + 2 * c_1**2) / std**2
    return c_1 / std * x, variance * np.outer(x, x)
