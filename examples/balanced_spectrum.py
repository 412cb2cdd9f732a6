"""The eigenvalues of weights from excitatory and inhibitory units (Rajan & Abbott 2006).

They fill a circle. Its radius, and the one eigenvalue that unbalanced means put outside of it, have to be
those of `references/balanced_spectrum.py`. Means that are balanced only on average leave eigenvalues outside
of the circle. Where each row sums to zero all are within it, and the means must change none. The weights that
popsim draws for networks with signs have such rows. Weights with eigenvalues outside must miss the circle,
and so must the radius of excitatory units alone where inhibitory weights vary more, and a standard deviation
of the eigenvalue outside that is half as large, or half as large again. Prints the numbers, draws the figure,
and exits with 1 when a gate fails or a negative control passes.
"""

import dataclasses
import sys
import time

import jax
import numpy as np

import popsim
from command_line import parse_options
from figures.balanced_spectrum import draw_figure
from gates import Row, exit_code, negative_controls, print_table, standard_error_row, upper_bound_row
from popsim.analysis.trainables import recurrent_eigenvalues
from popsim.training.constraints import dale_signs
from references import balanced_spectrum as reference
from references.balanced_spectrum import Weights

N_NETWORKS, N_UNITS, EXCITATORY = 20, 400, 0.8
N_OUTLIERS, N_POWERS = 400, 20  # networks of which only the outlier is computed, by so many products
EQUAL = (1.0, 1.0)  # the standard deviations of excitatory and of inhibitory weights, times sqrt(N)
UNEQUAL = (1.0, 2.0)
BALANCED = Weights(N_UNITS, EXCITATORY, (1.0, -4.0), EQUAL)
UNBALANCED = tuple(Weights(N_UNITS, EXCITATORY, (1.0, inhibitory), EQUAL) for inhibitory in (-2.0, 0.0))
SMALL_MEANS = (0.1, -0.4)  # as balanced on average as those above, which leave eigenvalues outside
WITHIN, OUTSIDE = 1.1, 1.2  # of the largest |eigenvalue|, relative to the radius
LARGEST_CHANGE = 1e-8  # of the largest |eigenvalue| by means that must change none
WRONG_DEVIATIONS = (0.5, 1.5)  # relative to the formula's, which must miss
WEAKER = 0.8  # inhibition, relative to what balances excitation


def eigenvalues(weights: np.ndarray) -> np.ndarray:
    """The eigenvalues [network, unit] of weights [network, post, pre], the largest first."""
    return recurrent_eigenvalues(weights[None])[0]


def drawn_eigenvalues(distribution: Weights, seed: int, *, rows_sum_to_zero: bool = False) -> np.ndarray:
    """The eigenvalues [network, unit] of weights that are drawn from a distribution."""
    rng = np.random.default_rng([seed, N_UNITS])
    draws = [
        reference.draw_weights(distribution, rng, rows_sum_to_zero=rows_sum_to_zero)
        for _ in range(N_NETWORKS)
    ]
    return eigenvalues(np.stack(draws))


def circle_row(name: str, spectra: np.ndarray, radius: float | np.ndarray) -> Row:
    """The mean largest |eigenvalue| relative to the radius, which has to be within the circle."""
    relative = np.abs(spectra[:, 0]) / radius
    row = Row(f"{name}, largest / radius", "mean", float(relative.mean()), 1.0, gate=(1 / WITHIN, WITHIN))
    return dataclasses.replace(row, error=float(relative.std(ddof=1) / N_NETWORKS**0.5))


def outliers(distribution: Weights, seed: int) -> np.ndarray:
    """The eigenvalue outside of the circle [network], the largest, by repeated products with the weights."""
    rng = np.random.default_rng([seed, N_OUTLIERS])
    found = []
    for _ in range(N_OUTLIERS):
        weights, vector = reference.draw_weights(distribution, rng, rows_sum_to_zero=False), np.ones(N_UNITS)
        for _ in range(N_POWERS):
            vector = weights @ (vector / np.linalg.norm(vector))
        found.append(vector @ weights @ vector / (vector @ vector))
    return np.array(found)


def deviation_row(name: str, found: np.ndarray, theory: float) -> Row:
    """The standard deviation of a normal number over networks, beside that of a formula."""
    error = theory / (2 * (len(found) - 1)) ** 0.5
    return standard_error_row(f"{name}, outlier", "SD", float(found.std(ddof=1)), theory, error)


def outlier_rows(name: str, distribution: Weights, spectra: np.ndarray, seed: int) -> list[Row]:
    """The eigenvalue outside of the circle, its mean and deviation over networks, and the others in it."""
    found, theory = outliers(distribution, seed), distribution.outlier_deviation
    error = float(found.std(ddof=1) / N_OUTLIERS**0.5 / abs(distribution.outlier))
    mean = Row(f"{name}, outlier", "mean", float(found.mean()), distribution.outlier, error, (0.95, 1.05))
    others = circle_row(f"{name}, others", spectra[:, 1:], distribution.radius)
    wrong = [deviation_row(f"{name}, SD x {factor:g}", found, factor * theory) for factor in WRONG_DEVIATIONS]
    controls = [circle_row(name, spectra, distribution.radius), *wrong]
    return [mean, deviation_row(name, found, theory), others, *negative_controls(controls)]


def balanced_rows(seed: int) -> tuple[list[Row], dict[str, np.ndarray]]:
    """Weights of balanced means: on average, where the means are large and small, and in each row."""
    average = drawn_eigenvalues(BALANCED, seed)
    small = drawn_eigenvalues(dataclasses.replace(BALANCED, means=SMALL_MEANS), seed)
    of_average = circle_row("balanced on average", average, BALANCED.radius)
    of_small = circle_row("balanced on average, small means", small, BALANCED.radius)
    rows = [
        dataclasses.replace(of_average, gate=(OUTSIDE, np.inf)),
        dataclasses.replace(of_small, gate=None),
        *negative_controls([of_average]),
    ]
    spectra = {"balanced on average": average / BALANCED.radius}
    for name, deviations in {"balanced rows": EQUAL, "balanced rows, unequal": UNEQUAL}.items():
        distribution = dataclasses.replace(BALANCED, deviations=deviations)
        found = drawn_eigenvalues(distribution, seed, rows_sum_to_zero=True)
        same = dataclasses.replace(distribution, means=(0.0, 0.0))
        without_means = drawn_eigenvalues(same, seed, rows_sum_to_zero=True)
        change = np.abs(np.abs(found[:, 0]) - np.abs(without_means[:, 0])).max()
        rows.append(circle_row(name, found, distribution.radius))
        worst = float(np.abs(found).max()) / distribution.radius
        rows.append(Row(f"{name}, largest / radius", "worst", worst, 1.0))
        rows.append(upper_bound_row(f"{name}, change by means", "worst", float(change), LARGEST_CHANGE))
        spectra[name] = found / distribution.radius
    unequal = UNEQUAL[0] / Weights(N_UNITS, EXCITATORY, BALANCED.means, UNEQUAL).radius
    of_excitation = circle_row("radius of excitation", spectra["balanced rows, unequal"], unequal)
    return rows + negative_controls([of_excitation]), spectra


def popsim_weights(seed: int) -> np.ndarray:
    """The recurrent weights [network, post, pre] that popsim draws for networks with signs."""

    def build(key):
        signs = dale_signs(N_UNITS, EXCITATORY)
        return popsim.networks.LeakyRNN(1, N_UNITS, 1, signs=signs, gain=1.0, key=key)

    networks = popsim.make_ensemble(build, N_NETWORKS, key=jax.random.key(seed))
    return np.asarray(networks.recurrent_weights, float)


def circle_radii(weights: np.ndarray) -> np.ndarray:
    """The radius [network] of the circle from the variances of the weights that each unit sends."""
    return np.sqrt(weights.var(axis=1).sum(axis=1))


def popsim_rows(weights: np.ndarray, spectra: np.ndarray) -> list[Row]:
    """Weights that popsim draws: their rows, their circle, and the outlier where inhibition is weaker."""
    radii = circle_radii(weights)
    sums = np.abs(weights.sum(axis=2)).max() / np.abs(weights).sum(axis=2).max()
    rows = [
        upper_bound_row("popsim, sums of rows", "worst", float(sums), 1e-6),
        circle_row("popsim", spectra, radii),
    ]
    weaker = np.where(weights < 0, WEAKER * weights, weights)
    outliers, expected = np.real(eigenvalues(weaker)[:, 0]), weaker.sum(axis=2).mean(axis=1)
    name = f"popsim, inhibition x {WEAKER:g}"
    relative = float(np.mean(outliers / expected))
    rows.append(Row(f"{name}, outlier / sum of rows", "mean", relative, 1.0, gate=(0.95, 1.05)))
    return [*rows, *negative_controls([circle_row(name, eigenvalues(weaker), radii)])]


def main() -> int:
    """Draw weights, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "")
    began, rows, spectra = time.perf_counter(), [], {}
    for distribution in UNBALANCED:
        name = f"unbalanced, mu_I = {distribution.means[1]:g}"
        found = drawn_eigenvalues(distribution, options.seed)
        rows += outlier_rows(name, distribution, found, options.seed)
        spectra[name] = found / distribution.radius
    new_rows, balanced = balanced_rows(options.seed)
    weights = popsim_weights(options.seed)
    radii, of_popsim = circle_radii(weights), eigenvalues(weights)
    rows += new_rows + popsim_rows(weights, of_popsim)
    spectra |= balanced | {"popsim": of_popsim / radii[:, None]}
    print(f"drawn in {time.perf_counter() - began:.0f} s")
    print_table(rows, "found", "reference")
    outlier = UNBALANCED[0].outlier / UNBALANCED[0].radius
    print(*draw_figure(options.out, spectra, outlier, (WITHIN, OUTSIDE)), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
