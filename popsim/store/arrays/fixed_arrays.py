"""Arrays of a group that do not grow: written whole, once."""

from pathlib import Path

from popsim.store.arrays.checks import Values, check_array, check_axes
from popsim.store.arrays.chunk_shapes import cut_fixed
from popsim.store.arrays.layout import ArrayLayout
from popsim.store.arrays.shard_files import write_whole
from popsim.store.json_files import write_json


def check_fixed(arrays: Values) -> None:
    """**Raises:** `ValueError` if an array cannot be written, or an axis has two lengths."""
    lengths: dict[str, int] = {}
    for name, (axes, array) in arrays.items():
        check_array(name, axes, array)
        check_axes(lengths, name, axes, array.shape)


def write_fixed(group: Path, arrays: Values, run_id: str) -> dict[str, ArrayLayout]:
    """Write arrays into the folder of a group, of the run with this identity.

    **Returns:** the layout of each.
    """
    layouts = {}
    for name, (axes, array) in arrays.items():
        chunk, shard = cut_fixed(axes, array.shape, array.dtype.itemsize)
        layout = ArrayLayout(axes, array.dtype.name, array.shape, chunk, shard, grows=False)
        folder = group / name
        folder.mkdir()
        write_whole(folder, layout, array.astype(layout.numpy_dtype, copy=False), run_id)
        write_json(folder / "zarr.json", layout.metadata())
        layouts[name] = layout
    return layouts
