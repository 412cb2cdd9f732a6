"""Eigenvalues of large random weights from excitatory and inhibitory units. Numpy alone; no popsim.

W = A + 1 m' / sqrt(N), from a fraction f of excitatory units; the rest are inhibitory. Entries of A have mean
0 and standard deviation sigma_j / sqrt(N), and m_j is mu_E or mu_I, by the kind of the sending unit j. For
N -> infinity the eigenvalues of A fill a circle of radius

    r = sqrt(f sigma_E^2 + (1 - f) sigma_I^2).

The means add an eigenvalue z with m' (z - A)^-1 1 / sqrt(N) = 1. In powers of 1 / z this is
z = L + b / z + ..., with

    L = sqrt(N) (f mu_E + (1 - f) mu_I),    b = m' A 1 / sqrt(N),

so that an eigenvalue lies outside of the circle at L, if |L| is large, and over networks has the standard
deviation s / |L|, where s^2 = (f mu_E^2 + (1 - f) mu_I^2) r^2 is the variance of b. With L = 0 the means are
balanced, but eigenvalues as far as sqrt(s) remain, outside of the circle where the means are large. If the
rows of A sum to zero, A 1 = 0, then b and all further terms are zero, and so the balanced means change no
eigenvalue at all.

Sources: Rajan & Abbott 2006, Phys Rev Lett 97:188104, for r and for rows that sum to zero; the deviation is
derived here and checked by simulation.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Weights:
    """How weights are distributed.

    - `n_units`, `excitatory_fraction`: N and f.
    - `means`, `deviations`: mu and sigma, of excitatory and of inhibitory units.
    """

    n_units: int
    excitatory_fraction: float
    means: tuple[float, float]
    deviations: tuple[float, float]

    @property
    def fractions(self) -> np.ndarray:
        """The fractions [kind] of excitatory and of inhibitory units."""
        return np.array([self.excitatory_fraction, 1 - self.excitatory_fraction])

    @property
    def radius(self) -> float:
        """The radius of the circle, r."""
        return float(np.sqrt(self.fractions @ np.square(self.deviations)))

    @property
    def outlier(self) -> float:
        """The eigenvalue outside of the circle, L."""
        return float(np.sqrt(self.n_units) * self.fractions @ self.means)

    @property
    def outlier_deviation(self) -> float:
        """The standard deviation over networks of the eigenvalue outside of the circle, s / |L|."""
        return float(np.sqrt(self.fractions @ np.square(self.means))) * self.radius / abs(self.outlier)


def draw_weights(distribution: Weights, rng: np.random.Generator, *, rows_sum_to_zero: bool) -> np.ndarray:
    """Normal weights [post, pre], the excitatory units first.

    **Arguments:**

    - `rows_sum_to_zero`: whether the mean of each row of A is subtracted from it.
    """
    n_units = distribution.n_units
    n_excitatory = round(distribution.excitatory_fraction * n_units)
    counts = (n_excitatory, n_units - n_excitatory)
    random = np.repeat(distribution.deviations, counts) * rng.standard_normal((n_units, n_units))
    if rows_sum_to_zero:
        random -= random.mean(axis=1, keepdims=True)
    return (np.repeat(distribution.means, counts) + random) / np.sqrt(n_units)
