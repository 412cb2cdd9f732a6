"""How strong given modes of a matrix are, over training."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.trainables.blocks import Block, over_blocks


class SingularModes(NamedTuple):
    """Singular modes of a matrix of each member, W = sum_a u_a s_a v_a', the strongest first.

    - `left` [member, row, mode]: u, orthonormal columns.
    - `strengths` [member, mode]: s.
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
    """The strength u_a' W(t) v_a of given modes at each recorded batch.

    Of the modes of the map that a linear network learns it follows the closed form of Saxe, McClelland &
    Ganguli 2014, arXiv 1312.6120; W is the product of the layers then.

    **Arguments:**

    - `weights`: W, of one array of a history, which is read in blocks if it is lazy, or in memory.
    - `left`, `right`: u and v in columns, for each member or the same for all; `final_modes` gives those
        that training ended with.

    **Raises:** `ValueError` if `left` and `right` do not fit the matrix and each other.
    """
    n_members, n_rows, n_columns = weights.shape[1:]
    u, v = _of_members("left", left, n_members, n_rows), _of_members("right", right, n_members, n_columns)
    if u.shape[2] != v.shape[2]:
        raise ValueError(f"`right` must have the {u.shape[2]} modes of `left`, got {v.shape[2]}.")

    def of_block(block: Block) -> np.ndarray:
        through = np.einsum("tmrc,mca->tmra", block.values, v[block.members])
        return np.sum(u[block.members] * through, axis=-2)

    return over_blocks(of_block, weights)


def final_modes(weights: Float[Any, "batch member row column"], n_modes: int) -> SingularModes:
    """The strongest singular modes of each member's matrix at the last recorded batch.

    **Arguments:**

    - `weights`: of one array of a history.
    - `n_modes`: how many.

    **Raises:** `ValueError` if the matrix has not so many.
    """
    most = min(weights.shape[-2:])
    if not 1 <= n_modes <= most:
        raise ValueError(f"`n_modes` must be from 1 to {most}, got {n_modes}.")
    left, strengths, right = np.linalg.svd(np.asarray(weights[-1], np.float64), full_matrices=False)
    return SingularModes(
        left[..., :n_modes], strengths[..., :n_modes], np.swapaxes(right[..., :n_modes, :], -1, -2)
    )


def _of_members(name: str, vectors: AnyArray, n_members: int, length: int) -> np.ndarray:
    """Vectors [member, length, mode], those for all repeated."""
    given = finite_float64(name, vectors)
    own = np.broadcast_to(given, (n_members, *given.shape)) if given.ndim == 2 else given
    if own.ndim != 3 or own.shape[:2] != (n_members, length):
        raise ValueError(
            f"`{name}` must be columns of {length} numbers for {n_members} members or for all, "
            f"got shape {given.shape}."
        )
    return own
