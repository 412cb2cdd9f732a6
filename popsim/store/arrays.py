"""Named arrays with named axes, in one zarr group with checksums."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROWS_PER_CHUNK = 64


def write_arrays(
    path: Path,
    arrays: Mapping[str, tuple[Sequence[str], np.ndarray]],
    *,
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Write arrays into a new zarr group (format 3), each chunk with a checksum.

    **Arguments:**

    - `path`: the folder of the group; it must not exist.
    - `arrays`: by name, the names of its axes, and the array.
    - `attributes`: JSON values kept with the group.

    **Raises:** `ValueError` if the axes of an array do not match its names, or a shared axis has two lengths.
    """
    import zarr
    from zarr.codecs import ZstdCodec

    lengths: dict[str, int] = {}
    for name, (dims, array) in arrays.items():
        if len(dims) != array.ndim:
            raise ValueError(f"array {name!r} must have {len(dims)} axes {tuple(dims)}, got {array.shape}.")
        for dim, length in zip(dims, array.shape, strict=True):
            if lengths.setdefault(dim, length) != length:
                raise ValueError(f"axis {dim!r} must have one length, got {lengths[dim]} and {length}.")
    group = zarr.create_group(path, zarr_format=3, attributes=dict(attributes or {}))
    for name, (dims, array) in arrays.items():
        group.create_array(
            name,
            data=array,
            chunks=_chunks(array.shape),
            compressors=ZstdCodec(level=3, checksum=True),
            dimension_names=tuple(dims),
        )


def _chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(
        max(1, min(length, ROWS_PER_CHUNK) if axis == 0 else length) for axis, length in enumerate(shape)
    )


def open_arrays(path: Path) -> Any:
    """The arrays of a group as a lazy `xarray.Dataset`: what is not looked at is not read.

    **Raises:** `ValueError` if there is no such group.
    """
    import xarray

    if not path.is_dir():
        raise ValueError(f"there must be a folder {path}; it is missing.")
    return xarray.open_zarr(path, chunks=None, consolidated=False)
