"""Large random networks are chaotic at a gain above one (Sompolinsky, Crisanti & Sommers 1988).

Six networks of each size run freely. Their largest Lyapunov exponent, extrapolated to infinitely many units
by a line in 1 / N, has to be that of the mean-field theory of `references/chaos.py`, and the variance of
their units that of the theory. Below a gain of one they fall silent, and the exponent is that of the leading
eigenvalue of the weights. The Euler steps of the networks lower the exponents by 1 to 2 percent; the theory
of these steps is the reference, and that of continuous time stands beside it. Numbers must miss the theory
of another gain, and silent networks that of chaotic ones. Prints the numbers, draws the figure, and exits
with 1 when a gate fails or a negative control passes.
"""

import dataclasses
import sys
import time

import jax
import numpy as np

import popsim
from command_line import parse_options
from figures.chaos import Autocorrelation, Extrapolation, draw_figure
from gates import Row, exit_code, negative_controls, print_table, tolerance_row, upper_bound_row
from popsim.analysis import dynamics
from references import chaos as reference

STEP = 0.1  # of time, in time constants
N_NETWORKS, N_TRAJECTORIES = 6, 4  # of each size, and of each network
N_TRANSIENT = 500  # steps
N_AUTOCORRELATED = 800  # units of the networks whose autocorrelation is taken
N_LAGS, LAG_EVERY, N_DRAWN = 200, 4, 600  # in steps
SILENT_GAIN, N_SILENT = 0.8, 400
N_DECAY = 3000  # steps: without chaos, deviations turn to the leading eigenvector slowly
OTHER_GAINS = {2.0: (1.5, 3.0), 3.0: (2.0, 4.0)}  # whose theory must be missed
LARGEST_SILENCE = 1e-6  # standard deviation of units that started with 1


@dataclasses.dataclass(frozen=True)
class Size:
    """Which networks are run, and for how many steps."""

    gains: tuple[float, ...]
    n_units: tuple[int, ...]
    n_steps: int


FULL, QUICK = Size((2.0, 3.0), (400, 800, 1600), 2000), Size((2.0,), (400, 800), 1000)


def build_networks(gain: float, n_units: int, seed: int) -> popsim.networks.LeakyRNN:
    """Random networks without inputs, of time constant 1."""

    def build(key):
        return popsim.networks.LeakyRNN(1, n_units, 1, tau=1.0, dt=STEP, gain=gain, key=key)

    key = popsim.key_stream(jax.random.key(seed), f"gain {gain:g}, {n_units} units")
    return popsim.make_ensemble(build, N_NETWORKS, key=key)


def starting_states(n_units: int, n_trajectories: int, seed: int) -> np.ndarray:
    """Standard normal states [network, trajectory, unit]."""
    rng = np.random.default_rng([seed, n_units])
    return rng.standard_normal((N_NETWORKS, n_trajectories, n_units))


def largest_exponents(
    gain: float, n_units: int, n_steps: int, seed: int, *, n_transient: int = N_TRANSIENT
) -> np.ndarray:
    """The largest exponent of each network, the mean over its trajectories."""
    spectrum = dynamics.lyapunov_spectrum(
        build_networks(gain, n_units, seed),
        starting_states(n_units, N_TRAJECTORIES, seed),
        n_steps,
        dt=STEP,
        n_exponents=1,
        n_transient=n_transient,
    )
    exponents = spectrum.exponent[:, :, 0].mean(axis=1)
    print(f"g = {gain:g}, N = {n_units}, exponents:", *(f"{x:.4f}" for x in exponents), flush=True)
    return exponents


def extrapolate(gain: float, size: Size, seed: int) -> Extrapolation:
    """The exponents of all sizes, and the line in 1 / N through their means, weighted by standard errors."""
    exponents = np.stack([largest_exponents(gain, n, size.n_steps, seed) for n in size.n_units])
    errors = exponents.std(axis=1, ddof=1) / N_NETWORKS**0.5
    line, covariance = np.polyfit(
        1 / np.array(size.n_units), exponents.mean(axis=1), 1, w=1 / errors, cov="unscaled"
    )
    return Extrapolation(
        np.array(size.n_units),
        exponents,
        slope=float(line[0]),
        limit=float(line[1]),
        limit_error=float(covariance[1, 1] ** 0.5),
        theory=reference.euler_exponent(gain, STEP),
    )


def exponent_rows(gain: float, found: Extrapolation) -> list[Row]:
    """The exponents of each size, which are only reported, and their limit beside this theory and others."""

    def limit_row(name: str, theory: float) -> Row:
        error = found.limit_error / theory
        tolerance = max(0.1, 2 * error)
        return Row(name, "limit", found.limit, theory, error, (1 - tolerance, 1 + tolerance))

    name = f"g = {gain:g}, exponent"
    rows = [
        Row(name, f"{n}", of_size.mean(), found.theory, of_size.std(ddof=1) / N_NETWORKS**0.5 / found.theory)
        for n, of_size in zip(found.n_units, found.exponents, strict=True)
    ]
    continuous = Row(f"{name}, continuous time", "limit", found.limit, reference.continuous_exponent(gain))
    controls = [
        limit_row(f"{name}, theory of g = {other:g}", reference.euler_exponent(other, STEP))
        for other in OTHER_GAINS[gain]
    ]
    return [*rows, continuous, limit_row(name, found.theory), *negative_controls(controls)]


def autocorrelate(gain: float, seed: int) -> Autocorrelation:
    """The autocorrelation of the units of each network, and that of the theory."""
    networks = build_networks(gain, N_AUTOCORRELATED, seed)
    starts = starting_states(N_AUTOCORRELATED, 2, seed)
    states = dynamics.rollout(networks, starts, 3 * N_TRANSIENT)[:, :, N_TRANSIENT:]
    lags = np.arange(0, N_LAGS + 1, LAG_EVERY)
    n_pairs = states.shape[2] - N_LAGS
    products = [
        np.einsum("nptu,nptu->n", states[:, :, :n_pairs], states[:, :, lag : lag + n_pairs]) for lag in lags
    ]
    found = np.stack(products, axis=1) / (states.shape[1] * n_pairs * states.shape[3])
    theory = reference.autocorrelation(gain, STEP, STEP)
    return Autocorrelation(lags * STEP, found, theory[lags], states[0, 0, :N_DRAWN, :6])


def variance_rows(gain: float, found: Autocorrelation) -> list[Row]:
    """The variance of units, and that of the theory of another gain, which must be missed."""
    variance = float(found.found[:, 0].mean())
    name = f"g = {gain:g}, variance of units"
    controls = [
        tolerance_row(
            f"{name}, theory of g = {other:g}", "mean", variance, reference.continuous_variance(other), 0.05
        )
        for other in OTHER_GAINS[gain]
    ]
    return [tolerance_row(name, "mean", variance, found.theory[0], 0.05), *negative_controls(controls)]


def silent_rows(seed: int) -> list[Row]:
    """How silent networks of a small gain are, and their exponents beside those of their weights."""
    networks = build_networks(SILENT_GAIN, N_SILENT, seed)
    exponents = largest_exponents(SILENT_GAIN, N_SILENT, N_DECAY, seed, n_transient=N_DECAY)
    last = dynamics.rollout(networks, starting_states(N_SILENT, 1, seed), 2 * N_TRANSIENT)[:, 0, -1]
    deviations, name, rows = last.std(axis=1), f"g = {SILENT_GAIN:g}", []
    for i, weights in enumerate(np.asarray(networks.recurrent_weights, float)):
        growth = np.abs(1 - STEP + STEP * np.linalg.eigvals(weights)).max()
        rows.append(upper_bound_row(f"{name}, deviation of units", str(i), deviations[i], LARGEST_SILENCE))
        rows.append(tolerance_row(f"{name}, exponent", str(i), exponents[i], np.log(growth) / STEP, 0.05))
    mean = float(exponents.mean())
    chaotic = tolerance_row(
        f"{name}, exponent, theory of g = 2", "mean", mean, reference.euler_exponent(2.0, STEP), 0.1
    )
    return [*rows, *negative_controls([chaotic])]


def main() -> int:
    """Run networks of all gains and sizes, print the table, draw the figure."""
    short = f"gain {QUICK.gains[0]:g} and smaller networks only, for {QUICK.n_steps} steps"
    options = parse_options(__file__, __doc__ or "", short_form=short)
    size, began = QUICK if options.quick else FULL, time.perf_counter()
    rows = silent_rows(options.seed)
    correlations, extrapolations = {}, {}
    for gain in size.gains:
        correlations[gain] = autocorrelate(gain, options.seed)
        rows += variance_rows(gain, correlations[gain])
        extrapolations[gain] = extrapolate(gain, size, options.seed)
        rows += exponent_rows(gain, extrapolations[gain])
    print(f"run in {time.perf_counter() - began:.0f} s")
    print_table(rows, "found", "reference")
    print(*draw_figure(options.out, correlations, extrapolations, STEP), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
