"""The optimal reach of a point mass: LQR, and LQG with a sensory delay. Numpy alone; popsim is not used.

The state is x = [p, v, g]: position (m), velocity (m/s) and target (m) in the plane, six numbers. The
command u is a force (N), two numbers. A reach of T steps costs

    J = |p_T - g|² + w_v |v_T|² + r sum_{t < T} |u_t|²,        x_{t+1} = A x_t + B (u_t + force noise).

No causal controller of this plant, whatever its form, has a lower expected cost than the values here.

Sources. The framework is that of Todorov & Jordan 2002, Nat Neurosci 5:1226-1235, and Todorov 2005,
Neural Comput 17:1084-1108 (PMC1550971; both citations verified). The recursions are the classical ones of
discrete-time LQG control, to which Todorov's reduce without signal-dependent noise; they are checked here
by Monte Carlo, not against numbers of a paper. Todorov's reach has two 40 ms muscle filters and a cost of
force, which are left out here so that a trained network faces the same problem; that his effort weight is
1e-5 too is known only from other people's code, not verified in the paper.
"""

import dataclasses

import numpy as np

N_SPACE = 2


@dataclasses.dataclass(frozen=True)
class Reach:
    """A reach, its noise and its senses.

    - `mass` (kg), `dt` (s), `n_steps`: the plant, and how many steps T a reach has.
    - `velocity_weight`: w_v, in s².
    - `effort_weight`: r, in m²/N².
    - `force_noise`: standard deviation of the force noise on each axis at each step, in N.
    - `sensor_noise`: standard deviations of what is sensed of position (m) and velocity (m/s).
    - `delay`: how many steps old what is sensed at a step is.
    """

    mass: float = 1.0
    dt: float = 0.01
    n_steps: int = 60
    velocity_weight: float = 0.1
    effort_weight: float = 1e-5
    force_noise: float = 0.0
    sensor_noise: tuple[float, float] = (0.0, 0.0)
    delay: int = 0


@dataclasses.dataclass(frozen=True)
class System:
    """The matrices of a reach, with n states: 6, and 6 more for each step of delay.

    `A` [n, n] and `B` [n, 2] step the state, `W` [n, n] is the covariance of what noise adds to it, `H`
    [4, n] is what is sensed with noise of covariance `N` [4, 4]; `Q` [n, n] is the final cost x' Q x and
    `R` [2, 2] the cost u' R u of every command.
    """

    A: np.ndarray
    B: np.ndarray
    W: np.ndarray
    H: np.ndarray
    N: np.ndarray
    Q: np.ndarray
    R: np.ndarray


def dynamics(mass: float, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """A [6, 6] and B [6, 2] of a point mass (kg) stepped by explicit Euler over dt (s).

    p_{t+1} = p_t + dt v_t, v_{t+1} = v_t + dt u_t / mass, g stays.
    """
    identity = np.eye(N_SPACE)
    nil = np.zeros((N_SPACE, N_SPACE))
    A = np.block([[identity, dt * identity, nil], [nil, identity, nil], [nil, nil, identity]])
    return A, np.vstack([nil, dt / mass * identity, nil])


def system(reach: Reach) -> System:
    """The matrices of a reach; d steps of delay add d past copies of the state; H sees the oldest."""
    A, B = dynamics(reach.mass, reach.dt)
    n, n_all = len(A), len(A) * (1 + reach.delay)
    A_all = np.eye(n_all, k=-n)
    A_all[:n, :n] = A
    B_all = np.zeros((n_all, N_SPACE))
    B_all[:n] = B
    identity, nil = np.eye(N_SPACE), np.zeros((N_SPACE, N_SPACE))
    error, velocity = np.hstack([identity, nil, -identity]), np.hstack([nil, identity, nil])
    Q = np.zeros((n_all, n_all))
    Q[:n, :n] = error.T @ error + reach.velocity_weight * velocity.T @ velocity
    return System(
        A=A_all,
        B=B_all,
        W=reach.force_noise**2 * B_all @ B_all.T,
        H=np.eye(2 * N_SPACE, n_all, k=n_all - n),
        N=np.diag(np.repeat(reach.sensor_noise, N_SPACE)) ** 2,
        Q=Q,
        R=reach.effort_weight * identity,
    )


def regulator(s: System, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The optimal gains and the costs to go.

    S_T = Q; L_t = (R + B' S_{t+1} B)^-1 B' S_{t+1} A; S_t = A' S_{t+1} (A - B L_t); u_t = -L_t x_t.

    **Returns:** L [T, 2, n] in N per unit of the state, and S [T + 1, n, n].
    """
    gains, to_go = [], [s.Q]
    for _ in range(n_steps):
        S = to_go[-1]
        L = np.linalg.solve(s.R + s.B.T @ S @ s.B, s.B.T @ S @ s.A)
        S = s.A.T @ S @ (s.A - s.B @ L)
        gains.append(L)
        to_go.append((S + S.T) / 2)
    return np.array(gains[::-1]), np.array(to_go[::-1])


def kalman_filter(s: System, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The optimal filter of a state that is known exactly at the start: P_0 = 0.

    K_t = P_t H' (H P_t H' + N)^+; Pf_t = (I - K_t H) P_t; P_{t+1} = A Pf_t A' + W. The pseudoinverse
    stands for the inverse, so that senses without noise are filtered too.

    **Returns:** K [T, n, 4], and the covariance Pf [T, n, n] of the state once step t was sensed.
    """
    P, gains, filtered = np.zeros_like(s.A), [], []
    for _ in range(n_steps):
        K = P @ s.H.T @ np.linalg.pinv(s.H @ P @ s.H.T + s.N, rcond=1e-12, hermitian=True)
        Pf = P - K @ s.H @ P
        P = s.A @ Pf @ s.A.T + s.W
        gains.append(K)
        filtered.append(Pf)
    return np.array(gains), np.array(filtered)


def initial_state(s: System, target: np.ndarray) -> np.ndarray:
    """The state [n] at rest at the origin with the target (m) shown, now and in all past copies."""
    x = np.concatenate([np.zeros(2 * N_SPACE), target])
    return np.tile(x, len(s.A) // len(x))


def optimal_cost(reach: Reach, target: np.ndarray) -> float:
    """The lowest expected cost J* (m²) of a reach from rest at the origin to `target` [2] (m).

    J* = x_0' S_0 x_0 + sum_t [tr(S_{t+1} W) + tr(L_t' (R + B' S_{t+1} B) L_t Pf_t)]: the reach without
    noise, the price of noise, and the price of not knowing the state, nil where the senses are exact and
    prompt.
    """
    s = system(reach)
    L, S = regulator(s, reach.n_steps)
    _, Pf = kalman_filter(s, reach.n_steps)
    x = initial_state(s, target)
    cost = x @ S[0] @ x
    for L_t, S_next, Pf_t in zip(L, S[1:], Pf, strict=True):
        cost += np.trace(S_next @ s.W)
        cost += np.trace(L_t.T @ (s.R + s.B.T @ S_next @ s.B) @ L_t @ Pf_t)
    return float(cost)


def optimal_reach(reach: Reach, target: np.ndarray) -> np.ndarray:
    """Position and velocity [T, 4] (m, m/s) after each step of the optimal reach without noise or delay."""
    s = system(dataclasses.replace(reach, delay=0))
    L, _ = regulator(s, reach.n_steps)
    x, states = initial_state(s, target), []
    for L_t in L:
        x = s.A @ x - s.B @ (L_t @ x)
        states.append(x[: 2 * N_SPACE])
    return np.array(states)


def simulated_costs(reach: Reach, target: np.ndarray, n_trials: int, seed: int) -> np.ndarray:
    """The costs J [trial] (m²) of LQG-controlled reaches with drawn noise: the check of `optimal_cost`.

    The plant is stepped by itself, by its two equations, and the senses read a list of past states, so
    that nothing but gains and filter is shared with what is checked.
    """
    rng = np.random.default_rng(seed)
    s = system(reach)
    L, _ = regulator(s, reach.n_steps)
    K, _ = kalman_filter(s, reach.n_steps)
    estimate = np.tile(initial_state(s, target), (n_trials, 1))
    past = [(np.zeros((n_trials, N_SPACE)), np.zeros((n_trials, N_SPACE)))]
    effort = np.zeros(n_trials)
    for t in range(reach.n_steps):
        sensed = np.hstack(past[max(t - reach.delay, 0)])
        sensed = sensed + np.repeat(reach.sensor_noise, N_SPACE) * rng.standard_normal(sensed.shape)
        estimate = estimate + (sensed - estimate @ s.H.T) @ K[t].T
        u = -estimate @ L[t].T
        effort += np.sum(u**2, axis=1)
        estimate = estimate @ s.A.T + u @ s.B.T
        p, v = past[-1]
        force = u + reach.force_noise * rng.standard_normal(u.shape)
        past.append((p + reach.dt * v, v + reach.dt / reach.mass * force))
    p, v = past[-1]
    final = np.sum((p - target) ** 2, axis=1) + reach.velocity_weight * np.sum(v**2, axis=1)
    return final + reach.effort_weight * effort
