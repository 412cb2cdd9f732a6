"""The record of committed rows, and checks of appended arrays."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from popsim._text_checks import check_path
from popsim.store.arrays._layout import DTYPES, ArrayLayout, Shape
from popsim.store.arrays._stored_array import StoredArray
from popsim.store.files import CorruptDataError, digest, is_plain_name, real_path
from popsim.store.identity import RUN_ID, check_run_id, is_run_id
from popsim.store.json_files import plain_json, read_json, write_json

FORMAT = 3
KEY = "popsim_arrays"


@dataclasses.dataclass(frozen=True)
class CommitRecord:
    """The layouts of the committed arrays, the attributes of the group, and the identity of the run.

    All are in the zarr.json of the group, under one checksum. The zarr.json of each array repeats its layout
    for other software; its length may be that of another commit.
    """

    layouts: Mapping[str, ArrayLayout]
    attributes: Mapping[str, Any]
    run_id: str

    def arrays(self, folder: Path) -> dict[str, StoredArray]:
        """Return the arrays in the folder of the group."""
        location = real_path(folder)
        return {
            name: StoredArray(folder / name, layout, self.run_id, location / name)
            for name, layout in self.layouts.items()
        }

    @property
    def lengths(self) -> dict[str, int]:
        """The number of committed rows, by growing axis."""
        return {layout.axes[0]: layout.shape[0] for layout in self.layouts.values() if layout.grows}

    def write(self, folder: Path) -> None:
        """Write the record into `folder`, in one atomic step."""
        metadata = {name: layout.metadata() for name, layout in self.layouts.items()}
        # The group comes last, as it is what popsim reads: after a crash before that, the old commit stands.
        for name, array_metadata in metadata.items():
            write_json(folder / name / "zarr.json", array_metadata)
        fixed = [name for name, layout in self.layouts.items() if not layout.grows]
        record: dict[str, Any] = {"format": FORMAT, RUN_ID: self.run_id, "fixed": fixed}
        group = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {**self.attributes, KEY: record},
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": metadata},
        }
        record["checksum"] = digest(group)
        write_json(folder / "zarr.json", group)

    @classmethod
    def read(cls, folder: Path, run_id: str | None = None) -> "CommitRecord":
        """Read the record in `folder`.

        **Arguments:**

        - `run_id`: the expected identity of the run; None accepts any.

        **Raises:** `ValueError` if the folder holds no arrays of popsim; `CorruptDataError` naming zarr.json
        if it is damaged, or missing although there are arrays; `MismatchError` if it is of another run.
        """
        check_path("path", folder)
        if not folder.is_dir():
            raise ValueError(f"`path` must be a folder of arrays, got {folder}: there is none.")
        path = folder / "zarr.json"
        if not path.exists() and not any(folder.glob("*/zarr.json")):
            raise ValueError(f"`path` must be a folder of arrays, got {folder}: it has no zarr.json.")
        group = read_json(path)
        try:
            attributes = dict(group["attributes"])
            record = dict(attributes.pop(KEY))
            checksum = record.pop("checksum")
            sound = checksum == digest({**group, "attributes": {**attributes, KEY: record}})
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            message = f"{path} must be written by popsim; it is not, or damaged."
            raise CorruptDataError(message) from None
        if not sound:
            raise CorruptDataError(f"{path} must match its checksum; it is damaged.")
        if record.get("format") != FORMAT:
            version = record.get("format")
            raise CorruptDataError(f"{path} must have format {FORMAT}, got {version!r}: use another popsim.")
        if not is_run_id(stored_id := record.get(RUN_ID)):
            raise CorruptDataError(f"{path} must have the identity of a run, got {stored_id!r}.")
        check_run_id(stored_id, run_id, path)
        try:
            metadata = dict(group["consolidated_metadata"]["metadata"])
            layouts = _parse_layouts(metadata, list(record["fixed"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptDataError(f"{path} must describe arrays as popsim writes them: {error}") from None
        return cls(layouts, attributes, stored_id)


def _parse_layouts(metadata: dict[str, Any], fixed: list[Any]) -> dict[str, ArrayLayout]:
    """**Raises:** `ValueError` for what popsim does not write, such as names that lead out of the folder."""
    layouts: dict[str, ArrayLayout] = {}
    lengths: dict[str, int] = {}
    for name, array_metadata in metadata.items():
        if not is_plain_name(name):
            raise ValueError(f"an array must have a plain name, got {name!r}.")
        try:
            layouts[name] = layout = ArrayLayout.parse(array_metadata, grows=name not in fixed)
        except ValueError as error:
            raise ValueError(f"of array {name!r}, {error}") from None
        check_axes(lengths, name, layout.axes, layout.shape)
    return layouts


def check_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes as parsed from their JSON.

    **Raises:** `ValueError` if they are not JSON values, or use the name of the record.
    """
    if KEY in attributes:
        raise ValueError(f"`attributes` must not use the name {KEY!r}.")
    return plain_json("attributes", attributes)


Values = Mapping[str, tuple[tuple[str, ...], np.ndarray]]


def check_array(name: str, axes: tuple[str, ...], array: np.ndarray) -> None:
    """Check that an array can be written, and has one name per axis.

    **Raises:** `ValueError` naming the array if not.
    """
    if not is_plain_name(name):
        raise ValueError(f"the name of an array must be that of a plain folder, got {name!r}.")
    if array.dtype.name not in DTYPES:
        raise ValueError(f"array {name!r} must have one of the types {', '.join(DTYPES)}, got {array.dtype}.")
    if len(axes) != array.ndim or len(set(axes)) != len(axes) or not all(isinstance(a, str) for a in axes):
        raise ValueError(f"array {name!r} must have one axis for each name of {axes}, got {array.shape}.")
    if array.ndim == 0:
        raise ValueError(f"array {name!r} must have an axis, got a single number.")


def check_axes(lengths: dict[str, int], name: str, axes: tuple[str, ...], shape: Shape) -> None:
    """Check that an axis has the same length in all arrays, and add the lengths of this one to `lengths`.

    **Raises:** `ValueError` naming the axis if not.
    """
    for axis, length in zip(axes, shape, strict=True):
        if lengths.setdefault(axis, length) != length:
            raise ValueError(
                f"axis {axis!r} of array {name!r} must have the length {lengths[axis]}, got {length}."
            )


def check_rows(axis: str, rows: Values, layouts: Mapping[str, ArrayLayout]) -> None:
    """Check rows to append along `axis` against the arrays of the group.

    **Arguments:**

    - `axis`: the growing axis.
    - `rows`: by array, the axis names of a row, and the rows. The first rows of an axis define its arrays.
    - `layouts`: all arrays so far.

    **Raises:** `ValueError` naming the array or the axis that does not fit.
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
    peers = {name: layout for name, layout in layouts.items() if layout.grows and layout.axes[0] == axis}
    if peers:
        _check_like(axis, rows, peers)
    else:
        _check_new(axis, rows, layouts)


def _check_new(axis: str, rows: Values, layouts: Mapping[str, ArrayLayout]) -> None:
    growing = {layout.axes[0] for layout in layouts.values() if layout.grows} | {axis}
    lengths: dict[str, int] = {}
    for name, layout in layouts.items():
        first = int(layout.grows)
        check_axes(lengths, name, layout.axes[first:], layout.shape[first:])
    if axis in lengths:
        raise ValueError(f"axis {axis!r} must not grow: it is an axis of arrays that do not.")
    for name, (axes, array) in rows.items():
        if name in layouts:
            raise ValueError(f"array {name!r} must be new, or grow along {axis!r} alone.")
        check_array(name, (axis, *axes), array)
        if growing & set(axes):
            raise ValueError(f"array {name!r} must grow along {axis!r} alone, got the axes {axes}.")
        check_axes(lengths, name, axes, array.shape[1:])


def _check_like(axis: str, rows: Values, layouts: Mapping[str, ArrayLayout]) -> None:
    if set(rows) != set(layouts):
        raise ValueError(f"`rows` must hold the arrays {sorted(layouts)} of {axis!r}, got {sorted(rows)}.")
    for name, (axes, array) in rows.items():
        layout = layouts[name]
        if (axes, array.shape[1:], array.dtype.name) != (layout.axes[1:], layout.shape[1:], layout.dtype):
            raise ValueError(
                f"rows of array {name!r} must be {layout.dtype} with axes {layout.axes[1:]} of shape "
                f"{layout.shape[1:]}, got {array.dtype} with axes {axes} of shape {array.shape[1:]}."
            )
