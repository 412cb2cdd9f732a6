"""Named arrays that grow during a training: a zarr group, written here and read lazily."""

from popsim.store.arrays.growing_arrays import GrowingArrays
from popsim.store.arrays.inspection import (
    ListedArray,
    damage_of_arrays,
    list_arrays,
    open_arrays,
    remove_arrays,
)

__all__ = [
    "GrowingArrays",
    "ListedArray",
    "damage_of_arrays",
    "list_arrays",
    "open_arrays",
    "remove_arrays",
]
