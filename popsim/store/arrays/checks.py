"""Checks of arrays that are to be written."""

from collections.abc import Mapping

import numpy as np

from popsim.store.arrays.commit_record import is_plain_name
from popsim.store.arrays.layout import DTYPES, ArrayLayout

Values = Mapping[str, tuple[tuple[str, ...], np.ndarray]]


def check_array(name: str, axes: tuple[str, ...], array: np.ndarray) -> None:
    """Check that an array can be written, with one name for each of its axes.

    **Raises:** `ValueError` naming the array if not.
    """
    if not is_plain_name(name):
        raise ValueError(f"the name of an array must be that of a plain folder, got {name!r}.")
    if array.dtype.name not in DTYPES:
        raise ValueError(f"array {name!r} must have one of the types {', '.join(DTYPES)}, got {array.dtype}.")
    if len(axes) != array.ndim or len(set(axes)) != len(axes) or not all(isinstance(a, str) for a in axes):
        raise ValueError(f"array {name!r} must have one axis for each name of {axes}, got {array.shape}.")


def check_axes(lengths: dict[str, int], name: str, axes: tuple[str, ...], shape: tuple[int, ...]) -> None:
    """Check that an axis has the same length in all arrays, and enter those of this one into `lengths`.

    **Raises:** `ValueError` naming the axis if not.
    """
    for axis, length in zip(axes, shape, strict=True):
        if lengths.setdefault(axis, length) != length:
            raise ValueError(
                f"axis {axis!r} of array {name!r} must have the length {lengths[axis]}, got {length}."
            )


def check_rows(axis: str, rows: Values) -> None:
    """Check that there are rows to append along `axis`, and equally many of each array.

    **Raises:** `ValueError` naming the array if not.
    """
    if not rows:
        raise ValueError(f"`rows` must hold an array to append along {axis!r}, got none.")
    n_rows = None
    for name, (_, array) in rows.items():
        if array.ndim == 0:
            raise ValueError(f"array {name!r} must have rows along {axis!r}, got a single number.")
        if n_rows not in (None, len(array)):
            raise ValueError(f"array {name!r} must have {n_rows} rows along {axis!r}, got {len(array)}.")
        n_rows = len(array)


def check_new(axis: str, rows: Values, others: Mapping[str, ArrayLayout]) -> None:
    """Check the first rows of an axis, which define its arrays.

    **Arguments:**

    - `axis`: the growing axis.
    - `rows`: by array, the names of the axes of a row, and the rows.
    - `others`: all arrays of the group that do not grow along it.

    **Raises:** `ValueError` naming the array or the axis that does not fit.
    """
    growing = {layout.axes[0] for layout in others.values() if layout.grows} | {axis}
    lengths: dict[str, int] = {}
    for name, layout in others.items():
        first = int(layout.grows)
        check_axes(lengths, name, layout.axes[first:], layout.shape[first:])
    if axis in lengths:
        raise ValueError(f"axis {axis!r} must not grow: it is an axis of arrays that do not.")
    for name, (axes, array) in rows.items():
        if name in others:
            raise ValueError(f"array {name!r} must be new, or grow along {axis!r} alone.")
        check_array(name, (axis, *axes), array)
        if growing & set(axes):
            raise ValueError(f"array {name!r} must grow along {axis!r} alone, got the axes {axes}.")
        check_axes(lengths, name, axes, array.shape[1:])


def check_like(axis: str, rows: Values, known: Mapping[str, ArrayLayout]) -> None:
    """Check further rows against the arrays that the first ones defined.

    **Raises:** `ValueError` naming the array that does not agree.
    """
    if set(rows) != set(known):
        raise ValueError(f"`rows` must hold the arrays {sorted(known)} of {axis!r}, got {sorted(rows)}.")
    for name, (axes, array) in rows.items():
        layout = known[name]
        if (axes, array.shape[1:], array.dtype.name) != (layout.axes[1:], layout.shape[1:], layout.dtype):
            raise ValueError(
                f"rows of array {name!r} must be {layout.dtype} with axes {layout.axes[1:]} of shape "
                f"{layout.shape[1:]}, got {array.dtype} with axes {axes} of shape {array.shape[1:]}."
            )
