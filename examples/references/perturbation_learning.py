"""Expected learning curves of gradient descent and of perturbation rules. Numpy alone; popsim is not used.

A linear network y = W x with N inputs x ~ N(0, 1) and M outputs learns W* from one random sample a step.
With V = W - W*, the error of a sample is E = |V x|² / 2, and a step adds to V

    gradient descent      -eta V x x'
    node perturbation     -(eta / sigma²) [E(y + xi) - E(y)] xi x',     xi ~ N(0, sigma²) on each output
    weight perturbation   -(eta / sigma²) [E(W + psi) - E(W)] psi,      psi ~ N(0, sigma²) on each weight

In each case e_t = E |V_t|² follows e_{t+1} = f e_t + c exactly, with f = 1 - 2 eta + eta² / eta*, where
eta* is the rate that makes f smallest, 1 - eta*, and twice of which makes the error grow.

Source: Werfel, Xie & Seung 2005, "Learning curves for stochastic gradient descent in linear feedforward
networks", Neural Comput 17:2699-2718, of which only the abstract was read. The recursions, c included, are
derived here from Gaussian moments and checked by Monte Carlo, not against the paper.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Setting:
    """The sizes N and M, and the standard deviation of the perturbations."""

    n_inputs: int = 10
    n_outputs: int = 4
    sigma: float = 0.01


def optimal_rate(rule: str, setting: Setting) -> float:
    """eta* of "gradient descent", "node perturbation" or "weight perturbation".

    A step has the squared length eta² q |V|² on average, where q = 1 / eta*. The input contributes
    E |x|² x x' = (N + 2) I, and a perturbation p of dimension d likewise E |p|² p p' = sigma⁴ (d + 2) I.
    """
    N, M = setting.n_inputs, setting.n_outputs
    directions = {"gradient descent": 1, "node perturbation": M + 2, "weight perturbation": M * N + 2}
    return 1 / (directions[rule] * (N + 2))


def decay_and_floor(rule: str, rate: float, setting: Setting) -> tuple[float, float]:
    """f and c of the recursion.

    c is what the quadratic part of the measured difference, |xi|² / 2 or |psi x|² / 2, adds: the mean
    squared step when V = 0,

        node:   (eta / sigma²)² E [|xi|⁴ |xi|² / 4] E |x|²
                = eta² sigma² M (M + 2) (M + 4) N / 4,
        weight: (eta / sigma²)² E [|psi x|⁴ |psi|² / 4]
                = eta² sigma² M (M + 2) (M N + 4) N (N + 2) / 4.

    In the second, M of the M N components of psi lie along x, and E |x|⁴ = N (N + 2).
    """
    N, M = setting.n_inputs, setting.n_outputs
    f = 1 - 2 * rate + rate**2 / optimal_rate(rule, setting)
    moments = {
        "gradient descent": 0,
        "node perturbation": M * (M + 2) * (M + 4) * N,
        "weight perturbation": M * (M + 2) * (M * N + 4) * N * (N + 2),
    }
    return f, rate**2 * setting.sigma**2 * moments[rule] / 4


def expected_error(rule: str, rate: float, setting: Setting, n_steps: int) -> np.ndarray:
    """e_t for t from 0 to `n_steps`, from e_0 = 1."""
    f, c = decay_and_floor(rule, rate, setting)
    error = [1.0]
    for _ in range(n_steps):
        error.append(f * error[-1] + c)
    return np.array(error)


def simulated_errors(
    rule: str, rate: float, setting: Setting, n_steps: int, n_runs: int, seed: int
) -> np.ndarray:
    """|V_t|² [run, t] of simulated learning, from |V_0| = 1: the check of `expected_error`."""
    rng = np.random.default_rng(seed)
    N, M, sigma = setting.n_inputs, setting.n_outputs, setting.sigma
    V = rng.standard_normal((n_runs, M, N))
    V /= np.linalg.norm(V, axis=(1, 2), keepdims=True)
    errors = [np.ones(n_runs)]
    for _ in range(n_steps):
        x = rng.standard_normal((n_runs, N, 1))
        y = V @ x
        if rule == "gradient descent":
            step = -y * np.swapaxes(x, 1, 2)
        else:
            node = rule == "node perturbation"
            perturbation = sigma * rng.standard_normal((n_runs, M, 1 if node else N))
            moved = y + perturbation if node else (V + perturbation) @ x
            gain = np.sum(moved**2 - y**2, axis=(1, 2), keepdims=True) / 2
            step = -gain / sigma**2 * perturbation * (np.swapaxes(x, 1, 2) if node else 1)
        V = V + rate * step
        errors.append(np.sum(V**2, axis=(1, 2)))
    return np.stack(errors, axis=-1)
