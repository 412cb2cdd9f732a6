"""The optimal reach of a point mass in a curl field, and reaches of controllers that expect another field.

The plant and the cost are those of `lqr.py`; the world adds the force F = b (v_y, -v_x), so that the plant
is still linear and its optimum an LQR. Numpy alone; popsim is not used.

    naive         the plant with the field, the controller of the plant without: first exposure
    adapted       the plant with the field, and its own controller
    after-effect  the plant without the field, the controller of the plant with: a catch trial

A positive deviation is to the left of the target as seen from the start; a field with b > 0 pushes to the
right.

Sources. Reaches are first distorted, recover with practice, and after-effects are mirror images of the first
errors: Shadmehr & Mussa-Ivaldi 1994, J Neurosci 14:3208-3224 (abstract verified; their field was not a pure
curl). The optimal path in a field is not straight but "appears to overcompensate": Izawa, Rane, Donchin &
Shadmehr 2008, J Neurosci 28:2883-2891 (abstract verified). The numbers are of neither paper.
"""

import dataclasses

import numpy as np

from references.lqr import Reach, System, initial_state, regulator, system


def system_in_field(reach: Reach, strength: float) -> System:
    """The matrices of a reach in a curl field of b = `strength` (N s/m), stepped by explicit Euler.

    v_{t+1} = v_t + dt (u_t + b (v_y, -v_x)) / m
    """
    s = system(dataclasses.replace(reach, delay=0))
    field = np.zeros_like(s.A)
    field[2, 3], field[3, 2] = 1.0, -1.0
    return dataclasses.replace(s, A=s.A + reach.dt / reach.mass * strength * field)


def controlled_reach(
    reach: Reach, target: np.ndarray, *, field: float, expected: float
) -> tuple[np.ndarray, float]:
    """A reach from rest at the origin in one field, by the controller that is optimal in another.

    **Arguments:**

    - `reach`: the plant and the cost; noise is left out.
    - `target`: [2], in m.
    - `field`: b of the world, in N s/m.
    - `expected`: b for which the controller is optimal.

    **Returns:** position and velocity [T, 4] (m, m/s) after each step, and the cost J (m²).
    """
    world = system_in_field(reach, field)
    gains, _ = regulator(system_in_field(reach, expected), reach.n_steps)
    x, states, cost = initial_state(world, target), [], 0.0
    for L in gains:
        u = -L @ x
        cost += u @ world.R @ u
        x = world.A @ x + world.B @ u
        states.append(x[:4])
    return np.array(states), float(cost + x @ world.Q @ x)


def phase_paths(reach: Reach, targets: np.ndarray, strength: float) -> dict[str, np.ndarray]:
    """Paths [trial, time, 2] (m) to `targets` [trial, 2] (m) in each phase of learning a field (N s/m)."""
    phases = {"naive": (strength, 0.0), "adapted": (strength, strength), "after-effect": (0.0, strength)}
    return {
        name: np.stack(
            [controlled_reach(reach, g, field=field, expected=expected)[0][:, :2] for g in targets]
        )
        for name, (field, expected) in phases.items()
    }


def lateral(positions: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The distance of paths from the straight line to the target, with its sign.

    **Arguments:**

    - `positions`: [..., trial, time, 2] (m), of reaches from the origin.
    - `targets`: [trial, 2] (m).

    **Returns:** [..., trial, time] (m), positive to the left.
    """
    x, y = np.moveaxis(targets / np.linalg.norm(targets, axis=-1, keepdims=True), -1, 0)
    return np.sum(positions * np.stack([-y, x], axis=-1)[:, None], axis=-1)


def deviation(positions: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """What `lateral` is where it is largest [..., trial] (m); arguments as there."""
    distances = lateral(positions, targets)
    largest = np.argmax(np.abs(distances), axis=-1, keepdims=True)
    return np.take_along_axis(distances, largest, axis=-1)[..., 0]
