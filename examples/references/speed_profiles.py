"""The speed of optimal reaches: LQR of a mass that forces move at once, or behind first-order filters.

A reach is straight, so one dimension is enough. The state is x = [p, v, f_k, ..., f_1, g]: position (m),
velocity (m/s), the outputs of the filters (N), of which f_k moves the mass, and the target (m). By explicit
Euler:

    p' = v,   m v' = f_k,   tau f_1' = u - f_1,   tau f_i' = f_{i-1} - f_i

Without filters u moves the mass. A reach of T steps costs

    J = (p_T - g)² + w_v v_T² + w_f f_T² + r sum_{t < T} u_t².

Numpy alone; popsim is not used.

Sources. The least effort moves a mass from rest to rest in a time D along the cubic 3 s² - 2 s³, s = t / D,
whose peak speed is 1.5 times the mean; the path of least jerk of Flash & Hogan 1985, J Neurosci 5:1688-1703,
has 1.875 = 30 s² (1 - s)² at s = 1/2. The mass of 1 kg behind two filters of 40 ms and the weights sqrt(w_v)
= 0.2 s and sqrt(w_f) = 0.02 m/N are those of Todorov 2005, Neural Comput 17:1084-1108, as in a public
reimplementation, without the signal-dependent noise. With its effort weight, 1e-5 / (T - 1) = 1.7e-7 m²/N²,
the peak is 1.84 times the mean; with the 2e-6 here it is 1.80, and networks learn it sooner.
"""

import dataclasses

import numpy as np

MIN_EFFORT, MIN_JERK = 1.5, 1.875  # peak by mean speed


@dataclasses.dataclass(frozen=True)
class Reach:
    """A reach and its plant.

    - `n_filters`, `time_constant`: how many filters there are, and tau in s.
    - `mass` (kg), `dt` (s), `n_steps`: the plant, and how many steps T a reach has.
    - `velocity_weight`, `force_weight`, `effort_weight`: w_v (s²), w_f and r (m²/N²).
    """

    n_filters: int = 0
    time_constant: float = 0.04
    mass: float = 1.0
    dt: float = 0.01
    n_steps: int = 60
    velocity_weight: float = 0.2**2
    force_weight: float = 0.02**2
    effort_weight: float = 2e-6


def dynamics(reach: Reach) -> tuple[np.ndarray, np.ndarray]:
    """A [n, n] and B [n] of one time step."""
    n = 3 + reach.n_filters
    A, B = np.eye(n), np.zeros(n)
    A[0, 1] = reach.dt
    pushed = [(1, reach.dt / reach.mass)]  # what a force moves, by how much in a step
    for i in range(2, 2 + reach.n_filters):
        A[pushed[-1][0], i] = pushed[-1][1]
        A[i, i] -= reach.dt / reach.time_constant
        pushed.append((i, reach.dt / reach.time_constant))
    B[pushed[-1][0]] = pushed[-1][1]
    return A, B


def final_cost(reach: Reach) -> np.ndarray:
    """Q [n, n] of the cost x_T' Q x_T."""
    n = 3 + reach.n_filters
    Q = np.zeros((n, n))
    Q[0, 0] = Q[-1, -1] = 1.0
    Q[0, -1] = Q[-1, 0] = -1.0
    Q[1, 1] = reach.velocity_weight
    if reach.n_filters:
        Q[2, 2] = reach.force_weight
    return Q


def optimal_reach(reach: Reach, distance: float) -> tuple[np.ndarray, float]:
    """The optimal reach from rest over `distance` (m).

    L_t = (r + B' S_{t+1} B)^-1 B' S_{t+1} A; S_t = A' S_{t+1} (A - B L_t); u_t = -L_t x_t.

    **Returns:** the state [T, n] after each step, and the cost J* (m²), the lowest of any controller.
    """
    (A, B), S, gains = dynamics(reach), final_cost(reach), []
    for _ in range(reach.n_steps):
        L = B @ S @ A / (reach.effort_weight + B @ S @ B)
        S = A.T @ S @ (A - np.outer(B, L))
        gains.append(L)
    x = np.zeros(len(A))
    x[-1] = distance
    cost, states = x @ S @ x, []
    for L in reversed(gains):
        x = A @ x - B * (L @ x)
        states.append(x)
    return np.array(states), float(cost)


def peak_by_mean(speeds: np.ndarray) -> np.ndarray:
    """The peak of speeds [..., time] relative to their mean over time."""
    return speeds.max(axis=-1) / speeds.mean(axis=-1)


def peak_time(speeds: np.ndarray) -> np.ndarray:
    """When speeds [..., time], given after each step, are highest, as a share of the reach."""
    return (np.argmax(speeds, axis=-1) + 1) / speeds.shape[-1]


def line(distances: np.ndarray, peaks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The slope (1/s) and R² of the straight line through peak speeds [..., distance] (m/s)."""
    x = distances - distances.mean()
    y = peaks - peaks.mean(axis=-1, keepdims=True)
    slope = y @ x / (x @ x)
    residual = y - slope[..., None] * x
    return slope, 1 - np.sum(residual**2, axis=-1) / np.sum(y**2, axis=-1)
