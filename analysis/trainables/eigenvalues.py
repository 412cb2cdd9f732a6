"""Eigenvalues of the recurrent weights over training."""

from typing import Any

import numpy as np
from jaxtyping import Complex, Float

from popsim.analysis.trainables.blocks import Block, over_blocks


def recurrent_eigenvalues(
    weights: Float[Any, "batch member row unit"],
) -> Complex[np.ndarray, "batch member unit"]:
    """The eigenvalues of the recurrent weights at each recorded batch, the largest in magnitude first.

    Of a square matrix, as `LeakyRNN.recurrent_weights`, all of it; of one with three rows for each unit, as
    `weight_hh` of `GRUNetwork`, the last third, which drives the candidate activation. They are those of
    the weights and not of the dynamics, which slopes, gates and time constants have a part in.

    **Arguments:**

    - `weights`: of one array of a history, which is read in blocks if it is lazy.

    **Raises:** `ValueError` if there is neither one row for each unit nor three, or no axis of batches.
    """
    if len(weights.shape) != 4:
        raise ValueError(
            "`weights` must have axes (batch, member, row, unit), those of one model or ensemble with "
            f"`weights[None]`; got shape {tuple(weights.shape)}."
        )
    n_rows, n_units = weights.shape[-2:]
    if n_rows not in (n_units, 3 * n_units):
        raise ValueError(
            "`weights` must be square, or have three rows for each unit as in a GRU, "
            f"got shape {tuple(weights.shape)}."
        )

    def of_block(block: Block) -> np.ndarray:
        values = np.linalg.eigvals(block.values[..., n_rows - n_units :, :])
        order = np.argsort(-np.abs(values), axis=-1, kind="stable")
        return np.take_along_axis(values, order, axis=-1)

    return over_blocks(of_block, weights, dtype=np.complex128)


def spectral_radius(weights: Float[Any, "batch member row unit"]) -> Float[np.ndarray, "batch member"]:
    """The largest magnitude of `recurrent_eigenvalues`; arguments and errors as there."""
    return np.abs(recurrent_eigenvalues(weights)[..., 0])
