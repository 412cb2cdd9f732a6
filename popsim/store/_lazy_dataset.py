"""Stored arrays as a lazy dataset of xarray."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from xarray import Dataset, Variable
from xarray.backends import BackendArray
from xarray.core import indexing

from popsim.store.stored_array import StoredArray


class LazyArray(BackendArray):
    """A stored array that reads entries when indexed; errors name the damaged file."""

    def __init__(self, array: StoredArray):
        self._array = array
        self.shape = array.layout.shape
        self.dtype = np.dtype(array.layout.dtype)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        """Return the entries at `key`."""
        outer = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, outer, self._array.read)


def lazy_dataset(arrays: Mapping[str, StoredArray], attributes: Mapping[str, Any]) -> Dataset:
    """Return arrays as variables; xarray takes one that labels its own axis for a coordinate."""
    variables = {
        name: Variable(array.layout.axes, indexing.LazilyIndexedArray(LazyArray(array)))
        for name, array in arrays.items()
    }
    return Dataset(variables, attrs=dict(attributes))
