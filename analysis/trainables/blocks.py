"""Going over a recorded array, which may be larger than memory, a block of batches and members at a time."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

BLOCK_BYTES = 64 * 2**20
"""How much of a history is held in memory at once, in bytes of float64, by everything in this package."""


class Block(NamedTuple):
    """A part of an array (batch, member, ...).

    - `rows`, `members`: where in the array it is.
    - `values`: the numbers, in float64.
    """

    rows: slice
    members: slice
    values: Float[np.ndarray, "batch member *rest"]


def blocks(array: Any, *, overlap: int = 0, n_bytes: int | None = None) -> Iterator[Block]:
    """All of an array, in blocks of which only one is read at a time; all rows of some members come first.

    **Arguments:**

    - `array`: (batch, member, ...), of numpy, JAX, or lazy from xarray.
    - `overlap`: how many rows a block shares with the next one: 1 for steps from row to row.
    - `n_bytes`: the size of the largest block in float64; None for `BLOCK_BYTES`. It is exceeded only where
        `overlap` + 1 rows of one member are larger.
    """
    n_bytes = BLOCK_BYTES if n_bytes is None else n_bytes
    n_rows, n_members, *rest = array.shape
    of_one = 8 * max(1, int(np.prod(rest)))
    least = overlap + 1
    members_at_once = min(max(1, n_bytes // (of_one * least)), max(1, n_members))
    rows_at_once = max(least, n_bytes // (of_one * members_at_once))
    for first in range(0, n_members, members_at_once):
        members = slice(first, min(first + members_at_once, n_members))
        for start in range(0, max(1, n_rows - overlap), rows_at_once - overlap):
            rows = slice(start, min(start + rows_at_once, n_rows))
            yield Block(rows, members, np.asarray(array[rows, members], np.float64))


def over_blocks(
    function: Any, array: Any, *, dtype: type = np.float64, overlap: int = 0
) -> Float[np.ndarray, "..."] | Any:
    """The results of a function of each block, put together: (batch - overlap, member, ...).

    **Arguments:**

    - `function`: from `Block` to what it gives for its rows, without the last `overlap` of them, and members.
    - `array`, `overlap`: as for `blocks`.
    - `dtype`: of the results.
    """
    result = None
    for block in blocks(array, overlap=overlap):
        own = function(block)
        if result is None:
            result = np.empty((array.shape[0] - overlap, array.shape[1], *own.shape[2:]), dtype)
        result[block.rows.start : block.rows.stop - overlap, block.members] = own
    return result
