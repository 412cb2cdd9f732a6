"""How far the trainables went during training, and how far they are from where they began."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, PyTree

from popsim.analysis.trainables.blocks import Block, over_blocks
from popsim.analysis.trainables.recorded import grouped, initial_values


@dataclasses.dataclass(frozen=True)
class Distance:
    """A distance in the space of the parameters of a group: the Euclidean one, over all of its arrays.

    - `absolute` [batch, member]: in the unit of the parameters, at each recorded batch.
    - `relative` [batch, member]: the same relative to the norm that the parameters began with; NaN where
        that is zero, as of biases that begin at zero.
    """

    absolute: Float[np.ndarray, "batch member"]
    relative: Float[np.ndarray, "batch member"]


def distance_travelled(
    history: Mapping[Any, Any],
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    initial: PyTree | None = None,
) -> dict[str, Distance]:
    """The length of the way that each member's parameters have gone: sum_t |W(t+1) - W(t)|.

    Only recorded batches count: what is between them is taken as straight, so that a history with fewer
    rows gives a shorter way. At least `distance_from_start`, and equal to it on a straight way.

    **Arguments:**

    - `history`: arrays (batch, member, ...) by name, such as `run.history.dataset`.
    - `groups`: for each group the names of its arrays, `{"recurrent": ["network.cell.weight_hh"]}`; None for
        a group of each array.
    - `initial`: the ensemble before training, `run.models(batch=-1)`, or its arrays (member, ...) by name;
        None to begin with the first row, which has to be before training (batch -1) if the history says of
        which batch it is.

    **Returns:** by group the distance up to each recorded batch.

    **Raises:** `ValueError` if nothing was recorded, a group names what was not, or `initial` does not fit.
    """

    def squared(array: Any, start: np.ndarray) -> np.ndarray:
        steps = np.zeros(array.shape[:2])
        steps[0] = _squares(np.asarray(array[0], np.float64) - start, n_leading=1)
        if array.shape[0] > 1:
            steps[1:] = over_blocks(lambda block: _squares(np.diff(block.values, axis=0)), array, overlap=1)
        return steps

    return _distances(history, groups, initial, squared, lambda steps: np.cumsum(steps, axis=0))


def distance_from_start(
    history: Mapping[Any, Any],
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    initial: PyTree | None = None,
) -> dict[str, Distance]:
    """How far each member's parameters are from where they began: |W(t) - W(0)|.

    **Arguments:** as for `distance_travelled`.

    **Returns:** by group the distance at each recorded batch.

    **Raises:** as `distance_travelled`.
    """

    def squared(array: Any, start: np.ndarray) -> np.ndarray:
        def of_block(block: Block) -> np.ndarray:
            return _squares(block.values - start[block.members])

        return over_blocks(of_block, array)

    return _distances(history, groups, initial, squared, lambda lengths: lengths)


def _squares(values: np.ndarray, n_leading: int = 2) -> np.ndarray:
    """The sum of squares over all axes after the leading ones."""
    return np.sum(values**2, axis=tuple(range(n_leading, values.ndim)))


def _distances(
    history: Mapping[Any, Any],
    groups: Mapping[str, Sequence[str]] | None,
    initial: PyTree | None,
    squared: Callable[[Any, np.ndarray], np.ndarray],
    accumulate: Callable[[np.ndarray], np.ndarray],
) -> dict[str, Distance]:
    """Distances of groups, from the squared lengths of each of their arrays."""
    distances = {}
    for group, arrays in grouped(history, groups).items():
        starts = {name: initial_values(array, name, initial) for name, array in arrays.items()}
        lengths = np.sqrt(sum(squared(array, starts[name]) for name, array in arrays.items()))
        norm = np.sqrt(sum(_squares(start, n_leading=1) for start in starts.values()))
        absolute = accumulate(lengths)
        distances[group] = Distance(absolute, absolute / np.where(norm > 0, norm, np.nan))
    return distances
