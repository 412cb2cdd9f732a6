"""Recurrent networks of low rank, reduced to their latent variables. Numpy alone; no popsim.

Units x' = -x + W tanh(x), in units of their time constant, with W = m n' / N + g chi. Let the entries of m
and n be normal, those of m of variance 1, with mean product rho, and those of chi independent, of variance
1 / N. At rest x = m kappa + g chi tanh(x) with kappa = n' tanh(x) / N. For N -> infinity the random part is
independent of m and n, and normal of variance g^2 <tanh(x)^2>. So x is normal as well, of variance

    D = kappa^2 + g^2 <tanh(x)^2>,

and by Stein's lemma kappa = <n tanh(x)> = rho kappa <tanh'(x)>, so that either kappa = 0 or

    rho <tanh'(x)> = 1.

The second equation alone gives D, for rho above 1, and the first then kappa.

With inputs u(t) = V s(t) and a bias b, the state never leaves the span of m, V and b:

    x = m kappa + V v + b w,
    kappa' = -kappa + n' tanh(x) / N,    v' = -v + s,    w' = -w + 1,

which is exact for any N, and for Euler steps as well.

Sources: Mastrogiuseppe & Ostojic 2018, Neuron 99:609-623 (the equations at rest are derived here, and were
not compared with theirs); Dubreuil et al. 2022, Nat Neurosci 25:783-794, for the reduction with inputs.
"""

import dataclasses

import numpy as np

NODES = np.linspace(-8, 8, 321)  # of the trapezoid rule
DENSITY = np.exp(-(NODES**2) / 2) / np.sqrt(2 * np.pi) * (NODES[1] - NODES[0])


def normal_mean(function, variance: float) -> float:
    """The mean of `function` of a normal number of mean 0."""
    return float(DENSITY @ function(np.sqrt(variance) * NODES))


def slope(x: np.ndarray) -> np.ndarray:
    """The derivative of tanh."""
    return 1 / np.cosh(x) ** 2


def variance_at_rest(overlap: float) -> float:
    """D where rho <tanh'> = 1; 0 for rho up to 1."""
    if overlap <= 1:
        return 0.0
    return bisect(lambda variance: overlap * normal_mean(slope, variance) < 1, 0.0, 4 * overlap**2)


def kappa_at_rest(overlap: float, gain: float) -> float:
    """The positive kappa of the ordered state; NaN where g leaves none."""
    variance = variance_at_rest(overlap)
    squared = variance - gain**2 * normal_mean(lambda x: np.tanh(x) ** 2, variance)
    return float(np.sqrt(squared)) if squared >= 0 else float("nan")


def exact_kappa(left: np.ndarray, right: np.ndarray) -> float:
    """The largest kappa of a network of rank one, of m and n [unit], without a random part; 0 if none."""

    def is_above(kappa: float) -> bool:
        return bool(right @ np.tanh(left * kappa) / len(left) < kappa)

    tried = np.geomspace(1e-3, np.abs(right).mean(), 400)  # no kappa is larger than the mean of |n|
    below = [kappa for kappa in tried if not is_above(kappa)]
    return bisect(is_above, below[-1], tried[-1]) if below else 0.0


def bisect(is_too_large, low: float, high: float) -> float:
    """The number between `low` and `high` up to which `is_too_large` is false."""
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if is_too_large(middle) else (middle, high)
    return low


@dataclasses.dataclass(frozen=True)
class LowRankNetwork:
    """A network of low rank with inputs and a linear readout of the rates.

    - `left`, `right` [unit, mode]: m and n.
    - `input_weights` [unit, input], `bias` [unit]: V and b.
    - `readout` [output, unit], `output_bias` [output].
    - `leak`: the size of an Euler step relative to the time constant.
    """

    left: np.ndarray
    right: np.ndarray
    input_weights: np.ndarray
    bias: np.ndarray
    readout: np.ndarray
    output_bias: np.ndarray
    leak: float

    def latent_course(self, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Kappa [trial, time, mode] and outputs [trial, time, output] in trials that start at x = 0.

        **Arguments:**

        - `inputs` [trial, time, input].
        """
        n_trials, n_steps, n_inputs = inputs.shape
        kappa = np.zeros((n_trials, self.left.shape[1]))
        filtered, constant = np.zeros((n_trials, n_inputs)), 0.0
        kappas, outputs = [], []
        for t in range(n_steps):
            rates = self.rates(kappa, filtered, constant)
            kappa = kappa + self.leak * (rates @ self.right / len(self.right) - kappa)
            filtered = filtered + self.leak * (inputs[:, t] - filtered)
            constant = constant + self.leak * (1 - constant)
            kappas.append(kappa)
            outputs.append(self.rates(kappa, filtered, constant) @ self.readout.T + self.output_bias)
        return np.stack(kappas, axis=1), np.stack(outputs, axis=1)

    def rates(self, kappa: np.ndarray, filtered: np.ndarray, constant: float) -> np.ndarray:
        """The rates [trial, unit] of units whose latent variables are given."""
        return np.tanh(kappa @ self.left.T + filtered @ self.input_weights.T + constant * self.bias)
