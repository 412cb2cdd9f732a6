"""Spectra of weights and of their changes."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Complex, Float, Key

from popsim.analysis import _arrays
from popsim.analysis._arrays import AnyArray
from popsim.analysis.trainables.trainable_arrays import Block, initial_values, map_blocks

__all__ = [
    "change_singular_values",
    "effective_rank",
    "participation_ratio_of_singular_values",
    "low_rank_approximation",
    "recurrent_eigenvalues",
    "spectral_radius",
    "SingularModes",
    "mode_strengths",
    "final_modes",
    "gaussian_participation_ratio",
    "gaussian_singular_values",
]


def change_singular_values(
    weights: Float[Any, "batch member row column"],
    *,
    initial: Float[AnyArray, "member row column"] | None = None,
) -> Float[np.ndarray, "batch member mode"]:
    """Return the singular values of W(t) - W(0) at each recorded batch, the largest first.

    **Arguments:**

    - `weights`: of one array of a history, such as `run.history["trainables.network.cell.weight_hh"]`.
    - `initial`: W(0); None for the first row of a saved history that begins before training (batch -1).
    """
    weights = _weight_history(weights)
    start = initial_values(weights, "weights", None if initial is None else {"weights": initial})

    def measure(block: Block) -> np.ndarray:
        return np.linalg.svd(block.values - start[block.members], compute_uv=False)

    return map_blocks(measure, weights)


def effective_rank(singular_values: Float[AnyArray, "*axes mode"]) -> Float[np.ndarray, "*axes"]:
    """Return the effective rank exp(-sum_i p_i log p_i) with p_i = s_i / sum_j s_j.

    Roy & Vetterli 2007, EUSIPCO, 606-610, definition 1. It equals the rank if all nonzero singular values are
    equal, and is lower otherwise.

    **Returns:** from 1 to the number of singular values; NaN where all are zero.
    """
    values = _arrays.finite_float64("singular_values", singular_values)
    total = values.sum(axis=-1, keepdims=True)
    shares = values / np.where(total > 0, total, np.nan)
    return np.asarray(np.exp(-np.sum(shares * np.log(np.where(shares == 0, 1.0, shares)), axis=-1)))


def participation_ratio_of_singular_values(
    singular_values: Float[AnyArray, "*axes mode"],
) -> Float[np.ndarray, "*axes"]:
    """Return the participation ratio (sum_i s_i²)² / sum_i s_i⁴ of singular values s.

    It is that of the eigenvalues s² of W'W. `gaussian_participation_ratio` gives the value by chance.

    **Returns:** from 1 to the number of singular values; NaN where all are zero.
    """
    values = _arrays.finite_float64("singular_values", singular_values)
    largest = values.max(axis=-1, keepdims=True)
    squares = (values / np.where(largest > 0, largest, np.nan)) ** 2
    return np.asarray(squares.sum(axis=-1) ** 2 / np.sum(squares**2, axis=-1))


def low_rank_approximation(
    change: Float[AnyArray, "*axes row column"], rank: int
) -> Float[np.ndarray, "*axes row column"]:
    """Return the nearest matrix of a given rank to each matrix (Eckart & Young 1936): its first modes."""
    matrices = _arrays.finite_float64("change", change, "... row column")
    _arrays.check_within("rank", rank, 0, min(matrices.shape[-2:]))
    u, values, vt = np.linalg.svd(matrices, full_matrices=False)
    return (u[..., :rank] * values[..., None, :rank]) @ vt[..., :rank, :]


def recurrent_eigenvalues(
    weights: Float[Any, "batch member row unit"],
) -> Complex[np.ndarray, "batch member unit"]:
    """Return the eigenvalues of the recurrent weights at each recorded batch, the largest in magnitude first.

    A square matrix, such as `LeakyRNN.recurrent_weights`, is used whole; of a matrix with three rows per
    unit, such as `weight_hh` of `GRUNetwork`, only the last third, which drives the candidate activation.
    They are not those of the dynamics, which also depend on slopes, gates and time constants.

    **Arguments:**

    - `weights`: of one array of a history, read in blocks if lazy.
    """
    weights = _weight_history(weights)
    n_rows, n_units = weights.shape[-2:]
    if n_rows not in (n_units, 3 * n_units):
        raise ValueError(
            "`weights` must be square, or have three rows for each unit as in a GRU, "
            f"got shape {tuple(weights.shape)}."
        )

    def measure(block: Block) -> np.ndarray:
        return _arrays.sorted_eigenvalues(block.values[..., n_rows - n_units :, :])

    return map_blocks(measure, weights, dtype=np.complex128)


def spectral_radius(weights: Float[Any, "batch member row unit"]) -> Float[np.ndarray, "batch member"]:
    """Return the largest magnitude of `recurrent_eigenvalues`; arguments and errors as there."""
    return np.abs(recurrent_eigenvalues(weights)[..., 0])


class SingularModes(NamedTuple):
    """The singular modes of a matrix of each member, W = sum_a u_a s_a v_a', the strongest first.

    The sign of a mode makes the sum of the cubed entries of u and v positive.

    - `left` [member, row, mode]: u, orthonormal columns.
    - `right` [member, column, mode]: v, orthonormal columns.
    """

    left: Float[np.ndarray, "member row mode"]
    strengths: Float[np.ndarray, "member mode"]
    right: Float[np.ndarray, "member column mode"]


def mode_strengths(
    weights: Float[Any, "batch member row column"],
    left: Float[AnyArray, "*members row mode"],
    right: Float[AnyArray, "*members column mode"],
) -> Float[np.ndarray, "batch member mode"]:
    """Return the strength u_a' W(t) v_a of given modes at each recorded batch.

    For the modes of the map that a linear network learns, with W the product of its layers, it follows the
    closed form of Saxe, McClelland & Ganguli 2014, arXiv 1312.6120.

    **Arguments:**

    - `weights`: W, of one array of a history, in memory or lazy (then read in blocks).
    - `left`, `right`: u and v in columns, per member or the same for all, such as those of `final_modes`.
    """
    weights = _weight_history(weights)
    n_members, n_rows, n_columns = weights.shape[1:]
    u = _arrays.for_each_member("left", left, n_members, f"row={n_rows} mode")
    v = _arrays.for_each_member("right", right, n_members, f"column={n_columns} mode={u.shape[2]}")

    def measure(block: Block) -> np.ndarray:
        return np.sum(u[block.members] * (block.values @ v[block.members]), axis=-2)

    return map_blocks(measure, weights)


def final_modes(weights: Float[Any, "batch member row column"], n_modes: int) -> SingularModes:
    """Return the strongest singular modes of each member's matrix at the last recorded batch."""
    weights = _weight_history(weights)
    _arrays.check_within("n_modes", n_modes, 1, min(weights.shape[-2:]))
    u, strengths, v = np.linalg.svd(np.asarray(weights[-1], np.float64), full_matrices=False)
    u, v = u[..., :n_modes], np.swapaxes(v[..., :n_modes, :], -1, -2)
    factors = _arrays.sign_factors(np.concatenate([u, v], axis=-2), axis=-2)
    return SingularModes(u * factors, strengths[..., :n_modes], v * factors)


def _weight_history(weights: Any) -> Any:
    weights = _arrays.as_sized("weights", weights)
    _arrays.check_axes("weights", weights, "batch member row column")
    return weights


def gaussian_participation_ratio(n_rows: int, n_columns: int) -> float:
    """Return (M N + 2) / (M + N + 1), the participation ratio of singular values of a Gaussian M x N matrix.

    It is the ratio of the exact means E (tr W'W)² = M N (M N + 2) and E tr (W'W)² = M N (M + N + 1) (the
    moments of a Wishart matrix). The mean of the ratio differs from it by a share of order 1 / (M N).
    """
    return (n_rows * n_columns + 2) / (n_rows + n_columns + 1)


def gaussian_singular_values(
    n_rows: int, n_columns: int, *, n_draws: int = 100, norm: float = 1.0, key: Key[jax.Array, ""]
) -> Float[np.ndarray, "draw mode"]:
    """Draw Gaussian matrices, scale them to one Frobenius norm and return their singular values.

    **Arguments:**

    - `norm`: sqrt(sum_i s_i²) of each, such as that of a change of weights.

    **Returns:** the largest first.
    """
    matrices = _arrays.numpy_generator(key).standard_normal((n_draws, n_rows, n_columns))
    values = np.linalg.svd(matrices, compute_uv=False)
    return norm * values / np.linalg.norm(values, axis=-1, keepdims=True)
