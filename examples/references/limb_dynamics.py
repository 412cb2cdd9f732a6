"""How an arm that holds a posture should answer to a step of torque on its joints. No popsim here.

The angles q (rad) of shoulder and elbow are those from the posture held. Near it M q'' = u + w, with the
inertia matrix M there, the command u and the load w (N m). A trial of T steps costs

    J = sum_t |q_t+1|² + r |u_t|²,        x = (q, q'),        x_t+1 = A x_t + B (u_t + w_t).

The load is nil at first and constant from the step `onset`. The controller knows its own commands, and the
states up to `delay` steps ago. Directions of loads are drawn evenly, so the load to expect before one is felt
is nil. The first loaded state tells it exactly. Without noise no causal controller has a lower mean cost.

After Kurtzer, Pruszynski & Scott 2008, Curr Biol 18:449-453. What is built here is not their model.
"""

import dataclasses

import numpy as np

EARLY_STEPS = 5


@dataclasses.dataclass(frozen=True)
class Limb:
    """Upper arm and forearm: masses (kg), lengths and distances of the centres of mass from the joint (m),
    and moments of inertia about these centres (kg m²)."""

    mass: tuple[float, float] = (1.82, 1.43)
    length: tuple[float, float] = (0.309, 0.333)
    center_of_mass: tuple[float, float] = (0.135, 0.165)
    inertia: tuple[float, float] = (0.051, 0.057)


@dataclasses.dataclass(frozen=True)
class Hold:
    """A trial.

    - `dt` (s), `n_steps`: the time step, and how many there are.
    - `onset`: the first step with the load.
    - `delay`: how many steps old the state is that is sensed.
    - `effort_weight`: r, in rad²/(N m)².
    """

    dt: float = 0.01
    n_steps: int = 45
    onset: int = 5
    delay: int = 5
    effort_weight: float = 1e-3


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a controller does: its commands [load, time, joint] (N m), the angles [load, time, joint] (rad)
    after each step, and the cost J [load] (rad²)."""

    commands: np.ndarray
    angles: np.ndarray
    costs: np.ndarray


def as_answer(hold: Hold, commands: np.ndarray, angles: np.ndarray) -> Answer:
    """An answer with its cost."""
    effort = hold.effort_weight * np.sum(commands**2, axis=(1, 2))
    return Answer(commands, angles, np.sum(angles**2, axis=(1, 2)) + effort)


def inertia_matrix(limb: Limb, elbow: float) -> np.ndarray:
    """M [2, 2] (kg m²) at the angle of the elbow (rad), 0 when the arm is straight."""
    m, c, i = limb.mass, limb.center_of_mass, limb.inertia
    forearm = m[1] * c[1] ** 2 + i[1]
    upper_arm = m[0] * c[0] ** 2 + i[0] + m[1] * limb.length[0] ** 2
    coupling = m[1] * limb.length[0] * c[1] * np.cos(elbow)
    coupled = forearm + coupling
    return np.array([[upper_arm + forearm + 2 * coupling, coupled], [coupled, forearm]])


def dynamics(inertia: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """A [4, 4] and B [4, 2] of a time step (s) with constant torque, without any error of integration."""
    nil, identity, mobility = np.zeros((2, 2)), np.eye(2), np.linalg.inv(inertia)
    A = np.block([[identity, dt * identity], [nil, identity]])
    return A, np.vstack([dt**2 / 2 * mobility, dt * mobility])


def regulator(hold: Hold, inertia: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gains L [T, 2, 4] and K [T, 2, 2] of the best command u = -L x - K w under a known load w.

    The cost to go is x' S x + 2 x' Z w and what does not depend on x. S_T = Q, Z_T = 0, H = r + B' S B;
    L = H^-1 B' S A; K = H^-1 B' (S B + Z); S_t = Q + A' S (A - B L); Z_t = A' (S B (1 - K) + Z).
    """
    A, B = dynamics(inertia, hold.dt)
    Q = np.diag([1.0, 1.0, 0.0, 0.0])
    S, Z, gains, load_gains = Q, np.zeros((4, 2)), [], []
    for _ in range(hold.n_steps):
        H = hold.effort_weight * np.eye(2) + B.T @ S @ B
        L, K = np.linalg.solve(H, B.T @ S @ A), np.linalg.solve(H, B.T @ (S @ B + Z))
        S, Z = Q + A.T @ S @ (A - B @ L), A.T @ (S @ B @ (np.eye(2) - K) + Z)
        gains.append(L)
        load_gains.append(K)
    return np.array(gains[::-1]), np.array(load_gains[::-1])


def answer(hold: Hold, inertia: np.ndarray, loads: np.ndarray, believed: np.ndarray | None = None) -> Answer:
    """What the best controller of a limb with the inertia `believed` does when its limb has `inertia`.

    It takes for the load the torque that its last known step lacks, and for its state what its commands and
    that load would have made of the last known one. By default it knows its limb, which is the optimum.

    **Arguments:**

    - `inertia`, `believed`: [2, 2], in kg m².
    - `loads`: [load, joint], in N m.
    """
    believed = inertia if believed is None else believed
    A, B = dynamics(inertia, hold.dt)
    _, believed_B = dynamics(believed, hold.dt)
    L, K = regulator(hold, believed)
    states, commands = [np.zeros((len(loads), 4))], []
    for t in range(hold.n_steps):
        known = max(t - hold.delay, 0)
        estimate, felt = states[known], np.zeros_like(loads)
        if known:
            gained = states[known][:, 2:] - states[known - 1][:, 2:]
            felt = gained @ believed / hold.dt - commands[known - 1]
        for s in range(known, t):
            estimate = estimate @ A.T + (commands[s] + felt) @ believed_B.T
        commands.append(-estimate @ L[t].T - felt @ K[t].T)
        states.append(states[-1] @ A.T + (commands[t] + (loads if t >= hold.onset else 0)) @ B.T)
    return as_answer(hold, np.stack(commands, axis=1), np.stack(states[1:], axis=1)[..., :2])


def load_of_one_joint(inertia: np.ndarray, joint: int, size: float) -> np.ndarray:
    """The load [2] of a given size (N m) under which one joint alone begins to turn: M times its axis."""
    return size * inertia[:, joint] / np.linalg.norm(inertia[:, joint])


def early(hold: Hold, commands: np.ndarray) -> np.ndarray:
    """The mean command [..., joint] (N m) over the first steps at which the load is felt."""
    first = hold.onset + hold.delay + 1
    return commands[..., first : first + EARLY_STEPS, :].mean(axis=-2)
