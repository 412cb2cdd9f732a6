"""Optimal corrections of a reach to a point or to a bar, with delayed senses. Numpy alone, without popsim.

A point mass reaches 10 cm along x. The target is a point, or a bar across the movement, along which any end
is as good. A reach of T steps costs

    J = (p_x - g_x)² + (1 - w) (p_y - g_y)² + w_v |v|² + r sum_t |u_t|²,        p and v after the last step,

with w = 0 for the point and 1 for the bar. In one step at an unknown time a force pushes the mass across the
movement, as often to one side as to the other. What is sensed is `delay` steps old. Until a push is felt its
expectation is zero, so the best controller predicts the state from the oldest one that it knows and from its
own commands, and answers by the gains of the linear-quadratic regulator (certainty equivalence).

The recursion is that of `lqr.py`. Tests compare it with the least-squares solution for all commands at once.
"""

import dataclasses

import numpy as np

TARGET = np.array([0.1, 0.0])  # m


@dataclasses.dataclass(frozen=True)
class Reach:
    """A reach, and what may push it.

    - `mass` (kg), `dt` (s), `n_steps`: the plant, and how many steps T a reach has.
    - `velocity_weight`: w_v, in s².
    - `effort_weight`: r, in m²/N².
    - `delay`: how many steps old what is sensed at a step is.
    - `push`: the force of a push, in N.
    - `push_steps`: the steps of the pushes that are tested.
    """

    mass: float = 1.0
    dt: float = 0.01
    n_steps: int = 60
    velocity_weight: float = 0.1
    effort_weight: float = 1e-5
    delay: int = 5
    push: float = 30.0
    push_steps: tuple[int, ...] = (10, 20, 30, 40)


def dynamics(reach: Reach) -> tuple[np.ndarray, np.ndarray]:
    """A [4, 4] and B [4, 2] of x = (p - g, v): p_{t+1} = p_t + dt v_t, v_{t+1} = v_t + dt u_t / mass."""
    identity, nil = np.eye(2), np.zeros((2, 2))
    A = np.block([[identity, reach.dt * identity], [nil, identity]])
    return A, np.vstack([nil, reach.dt / reach.mass * identity])


def final_weights(reach: Reach, width: float) -> np.ndarray:
    """The weights [4, 4] of the final state: `width` is w, or .5 for who does not know the target."""
    return np.diag([1.0, 1.0 - width, reach.velocity_weight, reach.velocity_weight])


def gains(reach: Reach, width: float) -> np.ndarray:
    """The optimal gains [T, 2, 4]: u_t = -L_t x_t."""
    A, B = dynamics(reach)
    S, found = final_weights(reach, width), []
    for _ in range(reach.n_steps):
        L = np.linalg.solve(reach.effort_weight * np.eye(2) + B.T @ S @ B, B.T @ S @ A)
        S = A.T @ S @ (A - B @ L)
        found.append(L)
    return np.array(found[::-1])


def play(
    reach: Reach, width: float, push: float, step: int, believed: float | None = None
) -> tuple[float, np.ndarray]:
    """The cost J (m²) and the path [T, 2] (m) of the best reach under a push (N) across it at a step.

    `believed` is the width for which the controller is the best, by default that of the target.
    """
    A, B = dynamics(reach)
    L = gains(reach, width if believed is None else believed)
    states, commands = [np.concatenate([-TARGET, np.zeros(2)])], []
    for t in range(reach.n_steps):
        known = max(t - reach.delay, 0)
        estimate = states[known]
        for command in commands[known:t]:
            estimate = A @ estimate + B @ command
        commands.append(-L[t] @ estimate)
        pushed = np.array([0.0, push if t == step else 0.0])
        states.append(A @ states[-1] + B @ (commands[-1] + pushed))
    effort = reach.effort_weight * np.sum(np.square(commands))
    cost = states[-1] @ final_weights(reach, width) @ states[-1] + effort
    return float(cost), np.array(states[1:])[:, :2] + TARGET
