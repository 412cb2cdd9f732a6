"""Arrays of a group that do not grow: written whole, once."""

from pathlib import Path

from popsim.store.array_checks import Values, check_array, check_axes
from popsim.store.array_layout import ArrayLayout
from popsim.store.chunk_shapes import cut_fixed
from popsim.store.metadata_files import write_metadata
from popsim.store.shard_files import write_whole


def check_fixed(arrays: Values) -> None:
    """**Raises:** `ValueError` if an array cannot be written, or an axis has two lengths."""
    lengths: dict[str, int] = {}
    for name, (axes, array) in arrays.items():
        check_array(name, axes, array)
        check_axes(lengths, name, axes, array.shape)


def write_fixed(group: Path, arrays: Values) -> dict[str, str]:
    """Write arrays into the folder of a group.

    **Returns:** the digest of the layout of each.
    """
    digests = {}
    for name, (axes, array) in arrays.items():
        chunk, shard = cut_fixed(axes, array.shape, array.dtype.itemsize)
        layout = ArrayLayout(axes, array.dtype.name, array.shape, chunk, shard, grows=False)
        folder = group / name
        folder.mkdir()
        write_whole(folder, layout, array.astype(layout.numpy_dtype, copy=False))
        write_metadata(folder / "zarr.json", layout.metadata())
        digests[name] = layout.digest()
    return digests
