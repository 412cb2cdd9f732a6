"""Arrays of members and trials as a table with one row for each number."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from popsim.analysis.arrays import AnyArray
from popsim.analysis.optional_packages import optional


def long_table(
    values: Mapping[str, AnyArray],
    axes: Sequence[str],
    *,
    labels: Mapping[str, tuple[str, AnyArray]] | None = None,
) -> Any:
    """A `pandas.DataFrame` with one row for each place in the arrays.

    **Arguments:**

    - `values`: arrays of the same shape by the name of their column, such as the end-point error
        [member, trial].
    - `axes`: the name of each axis, such as ("member", "trial"); a column with the index along it.
    - `labels`: further columns by name: an axis and what each place along it is called, such as
        `{"condition": ("trial", condition)}`.

    **Returns:** the columns are `axes`, then labels, then values.

    **Raises:** `ValueError` if there is no array, they are not of the same shape, `axes` does not have a name
    for each axis, labels are not as many as the axis is long, or two columns have the same name;
    `ImportError` if pandas is missing.
    """
    arrays = {name: np.asarray(array) for name, array in values.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) != 1:
        raise ValueError(f"`values` must be arrays of the same shape, got {shapes}.")
    shape = next(iter(shapes.values()))
    names = [*axes, *(labels or {}), *arrays]
    if len(axes) != len(shape) or len(set(names)) != len(names):
        raise ValueError(
            f"`axes` must name each axis of shape {shape}, unlike other columns, got {list(axes)} of {names}."
        )
    places = np.indices(shape)
    columns: dict[str, np.ndarray] = {name: place.ravel() for name, place in zip(axes, places, strict=True)}
    for name, (axis, given) in (labels or {}).items():
        called = np.asarray(given)
        if axis not in axes or called.shape != (shape[list(axes).index(axis)],):
            raise ValueError(
                f"`labels` must be an axis of {list(axes)} and a label of each place along it, "
                f"got {axis!r} and shape {called.shape} for {name!r}."
            )
        columns[name] = called[columns[axis]]
    columns |= {name: array.ravel() for name, array in arrays.items()}
    return optional("pandas").DataFrame(columns)
