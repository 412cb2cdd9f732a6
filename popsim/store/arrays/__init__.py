"""Named arrays that grow while a training goes on: a zarr group, written here and read lazily."""

from popsim.store.arrays.damaged_files import verify_arrays as verify_arrays
from popsim.store.arrays.growing_arrays import GrowingArrays as GrowingArrays
from popsim.store.arrays.lazy_dataset import open_arrays as open_arrays
from popsim.store.arrays.listing import ListedArray as ListedArray
from popsim.store.arrays.listing import list_arrays as list_arrays
from popsim.store.arrays.stale_files import remove_arrays as remove_arrays
