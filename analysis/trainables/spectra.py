"""How many dimensions a change of weights has: its singular values, and numbers of dimensions from them."""

from typing import Any

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.trainables.blocks import Block, over_blocks
from popsim.analysis.trainables.recorded import initial_values


def change_singular_values(
    weights: Float[Any, "batch member row column"],
    *,
    initial: Float[AnyArray, "member row column"] | None = None,
) -> Float[np.ndarray, "batch member mode"]:
    """The singular values of W(t) - W(0) at each recorded batch, the largest first.

    **Arguments:**

    - `weights`: of one array of a history, such as `run.history["trainables.network.cell.weight_hh"]`; a
        lazy one is read in blocks.
    - `initial`: W(0); None for the first row, which has to be before training (batch -1) if the history says
        of which batch it is.

    **Raises:** `ValueError` if `initial` has another shape.
    """
    start = initial_values(weights, "weights", None if initial is None else {"weights": initial})

    def of_block(block: Block) -> np.ndarray:
        return np.linalg.svd(block.values - start[block.members], compute_uv=False)

    return over_blocks(of_block, weights)


def effective_rank(singular_values: Float[AnyArray, "*axes mode"]) -> Float[np.ndarray, "*axes"]:
    """The effective rank exp(-sum_i p_i log p_i), p_i = s_i / sum_j s_j, of the singular values themselves.

    Roy & Vetterli 2007, EUSIPCO, 606-610, definition 1. It is the rank where all singular values that are
    not zero are equal, and else lower; others take p_i = s_i² / sum_j s_j², which gives less.

    **Returns:** from 1 to the number of singular values; NaN where all are zero.
    """
    values = _not_negative(singular_values)
    total = values.sum(axis=-1, keepdims=True)
    shares = values / np.where(total > 0, total, np.nan)
    return np.asarray(np.exp(-np.sum(shares * np.log(np.where(shares == 0, 1.0, shares)), axis=-1)))


def participation_ratio_of_singular_values(
    singular_values: Float[AnyArray, "*axes mode"],
) -> Float[np.ndarray, "*axes"]:
    """The participation ratio (sum_i s_i²)² / sum_i s_i⁴ of singular values s.

    That of the eigenvalues s² of W'W. Singular values are squared: the variances of principal components are
    squares already, and `population.participation_ratio` takes the activity itself.
    `gaussian_participation_ratio` is what chance gives.

    **Returns:** from 1 to the number of singular values; NaN where all are zero.
    """
    values = _not_negative(singular_values)
    largest = values.max(axis=-1, keepdims=True)
    squares = (values / np.where(largest > 0, largest, np.nan)) ** 2
    return np.asarray(squares.sum(axis=-1) ** 2 / np.sum(squares**2, axis=-1))


def truncated(
    change: Float[AnyArray, "*axes row column"], rank: int
) -> Float[np.ndarray, "*axes row column"]:
    """The matrix of a rank that is nearest to each one (Eckart & Young 1936): its first singular modes.

    **Arguments:**

    - `change`: matrices.
    - `rank`: how many modes are kept, 0 to all.

    **Raises:** `ValueError` if `rank` is not from 0 to the number of modes.
    """
    matrices = finite_float64("change", change)
    n_modes = min(matrices.shape[-2:])
    if not 0 <= rank <= n_modes:
        raise ValueError(f"`rank` must be from 0 to {n_modes}, got {rank}.")
    left, values, right = np.linalg.svd(matrices, full_matrices=False)
    return (left[..., :rank] * values[..., None, :rank]) @ right[..., :rank, :]


def _not_negative(singular_values: AnyArray) -> np.ndarray:
    values = finite_float64("singular_values", singular_values)
    if values.min() < 0:
        raise ValueError(f"`singular_values` must be zero or more, got {values.min()}.")
    return values
