"""The Lorenz system and its Lyapunov exponents, and how far the states of another system are from its own."""

from collections.abc import Callable

import numpy as np

SIGMA, RHO, BETA = 10.0, 28.0, 8 / 3  # Lorenz 1963, J Atmos Sci 20:130-141
LARGEST_EXPONENT = 0.906  # of the three 0.906, 0 and -14.572, see `exponents`
N_SUBSTEPS, N_TRANSIENT, N_BINS = 4, 1000, 30


def velocity(states: np.ndarray) -> np.ndarray:
    """The time derivative of states [..., 3]."""
    x, y, z = np.moveaxis(states, -1, 0)
    return np.stack([SIGMA * (y - x), x * (RHO - z) - y, x * y - BETA * z], axis=-1)


def deviation_velocity(states: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """The time derivative of small deviations [..., 3, deviation] from states."""
    x, y, z = states.T[:, :, None]
    first, second, third = np.moveaxis(deviations, -2, 0)
    rows = SIGMA * (second - first), (RHO - z) * first - second - x * third, y * first + x * second
    return np.stack([*rows[:2], rows[2] - BETA * third], axis=-2)


def runge_kutta(derivative: Callable, state: np.ndarray, step: float) -> np.ndarray:
    """The state after a step of the classical method of order four."""
    first = derivative(state)
    second = derivative(state + step / 2 * first)
    third = derivative(state + step / 2 * second)
    return state + step / 6 * (first + 2 * second + 2 * third + derivative(state + step * third))


def orbits(n_orbits: int, n_steps: int, dt: float, seed: int) -> np.ndarray:
    """States [orbit, time, 3] on the attractor, every dt, each orbit from a start of its own."""
    states, kept = np.random.default_rng(seed).normal(size=(n_orbits, 3)) + [0, 0, 20], []
    for number in range(N_TRANSIENT + n_steps):
        for _ in range(N_SUBSTEPS):
            states = runge_kutta(velocity, states, dt / N_SUBSTEPS)
        if number >= N_TRANSIENT:
            kept.append(states)
    return np.stack(kept, axis=1)


def exponents(starts: np.ndarray, n_steps: int, dt: float) -> np.ndarray:
    """The Lyapunov exponents [orbit, 3] from starts [orbit, 3], by QR decompositions every dt."""

    def derivative(both: np.ndarray) -> np.ndarray:
        moved = deviation_velocity(both[..., 0], both[..., 1:])
        return np.concatenate([velocity(both[..., 0])[..., None], moved], axis=-1)

    identity = np.broadcast_to(np.eye(3), (len(starts), 3, 3))
    both, growth = np.concatenate([starts[..., None], identity], axis=-1), np.zeros((len(starts), 3))
    for number in range(N_TRANSIENT + n_steps):
        for _ in range(N_SUBSTEPS):
            both = runge_kutta(derivative, both, dt / N_SUBSTEPS)
        both[..., 1:], sizes = np.linalg.qr(both[..., 1:])
        if number >= N_TRANSIENT:
            growth += np.log(np.abs(np.diagonal(sizes, axis1=-2, axis2=-1)))
    return growth / (n_steps * dt)


def state_space_divergence(true: np.ndarray, generated: np.ndarray) -> float:
    """The Kullback-Leibler divergence of the states visited by another system [..., 3] from the true ones.

    Brenner et al. 2022, ICML, in the bins of the code of Hess et al. 2023, ICML: between the smallest and the
    largest of the true states, a tenth of a standard deviation further on both sides, with 1e-5 added to all
    counts. States outside of the bins are left out.
    """
    true, generated = true.reshape(-1, 3), generated.reshape(-1, 3)
    margin = 0.1 * true.std(axis=0)
    bounds = [*zip(true.min(axis=0) - margin, true.max(axis=0) + margin, strict=True)]

    def probabilities(states: np.ndarray) -> np.ndarray:
        counts = np.histogramdd(states[np.isfinite(states).all(axis=1)], N_BINS, bounds)[0] + 1e-5
        return counts / counts.sum()

    p, q = probabilities(true), probabilities(generated)
    return float(np.sum(p * np.log(p / q)))
