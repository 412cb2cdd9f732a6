"""Layout of stored arrays: shapes, chunks and shards.

Reading one entry over all rows favours long chunks, reading one row of everything favours short ones. A chunk
holds one member and about 512 KB: about ten rows of the weights of a small network, thousands of a loss. The
rows of a shard stay in memory until it is full; for arrays that grow together, a given memory gives the
fewest files if the rows per shard are proportional to one over the square root of the bytes per row.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES += ("float16", "float32", "float64")

Shape = tuple[int, ...]
ShardIndex = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class ArrayLayout:
    """The axes and data type of an array, the shapes of array, chunks and shards, and whether it grows."""

    axes: tuple[str, ...]
    dtype: str
    shape: Shape
    chunk: Shape
    shard: Shape
    grows: bool

    @property
    def shards_by_axis(self) -> Shape:
        """The number of shards along each axis."""
        return tuple(-(-length // part) for length, part in zip(self.shape, self.shard, strict=True))

    def of_length(self, length: int) -> "ArrayLayout":
        """Return the same layout with another number of rows, if the array grows."""
        return dataclasses.replace(self, shape=(length, *self.shape[1:])) if self.grows else self

    def shard_name(self, place: ShardIndex) -> str:
        """Return the file name of a shard."""
        return ".".join(["c", *map(str, place)])

    def places(self, first: int | None = None) -> Iterator[ShardIndex]:
        """Yield the places of the shards in order, lazily, all or those at `first` along the first axis."""
        counts = self.shards_by_axis
        stride = math.prod(counts[1:])
        numbers = range(counts[0] * stride) if first is None else range(first * stride, (first + 1) * stride)
        for number in numbers:
            yield tuple(map(int, np.unravel_index(number, counts)))

    def block(self, place: ShardIndex) -> tuple[slice, ...]:
        """Return the slices of the array that the shard at `place` holds."""
        parts = zip(place, self.shard, self.shape, strict=True)
        return tuple(slice(i * part, min((i + 1) * part, length)) for i, part, length in parts)

    def metadata(self) -> dict[str, Any]:
        """Return the description of the array in zarr."""
        little = {"name": "bytes", "configuration": {"endian": "little"}}
        zstd = {"name": "zstd", "configuration": {"level": -1, "checksum": True}}
        crc32c = {"name": "crc32c"}
        sharding = {
            "chunk_shape": list(self.chunk),
            "codecs": [little if np.dtype(self.dtype).itemsize > 1 else {"name": "bytes"}, zstd],
            "index_codecs": [little, crc32c],
            "index_location": "start",  # which leaves the end of a file to the seal, see `StoredArray`
        }
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": self.dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.shard)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
            "fill_value": "NaN" if self.dtype.startswith("float") else np.dtype(self.dtype).type(0).item(),
            "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
            "attributes": {},
            "dimension_names": list(self.axes),
        }

    @classmethod
    def parse(cls, metadata: Mapping[str, Any], *, grows: bool) -> "ArrayLayout":
        """Invert `metadata`."""
        shard = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        chunk = metadata["codecs"][0]["configuration"]["chunk_shape"]
        return cls(
            tuple(metadata["dimension_names"]),
            metadata["data_type"],
            tuple(metadata["shape"]),
            tuple(chunk),
            tuple(shard),
            grows,
        )


CHUNK_BYTES = 2**19
CHUNK_ROWS = 2**12
LARGEST_CHUNK_BYTES = 2**23
SHARD_BYTES = 2**24
SHARD_ROWS = 2**12  # encoded anew at each commit: what that takes must settle early in a training
BUFFERED_BYTES = 3 * 2**23


def cut(rows: Mapping[str, tuple[Sequence[str], Shape, int]]) -> dict[str, tuple[Shape, Shape]]:
    """Choose the chunk and shard shapes of arrays that grow together.

    Of each, `rows` has the names and lengths of the axes of a row, and the bytes per number. Both shapes
    begin with a number of rows. One shard of every array together takes about `BUFFERED_BYTES`,
    unless a single row takes more.
    """
    sizes = {name: max(1, math.prod(shape) * itemsize) for name, (_, shape, itemsize) in rows.items()}
    scale = BUFFERED_BYTES / sum(math.sqrt(size) for size in sizes.values())
    shapes = {}
    for name, (axes, shape, itemsize) in rows.items():
        size = sizes[name]
        n_rows = max(1, min(int(scale / math.sqrt(size)), SHARD_BYTES // size, SHARD_ROWS))
        piece = _piece_of_row(axes, shape, itemsize)
        n_chunk = min(max(1, CHUNK_BYTES // max(1, math.prod(piece) * itemsize)), n_rows, CHUNK_ROWS)
        padded_shape = tuple(-(-length // part) * part for length, part in zip(shape, piece, strict=True))
        in_shard = piece if size > 2 * SHARD_BYTES else tuple(map(max, padded_shape, piece))
        shapes[name] = ((n_chunk, *piece), (n_rows // n_chunk * n_chunk, *in_shard))
    return shapes


def _piece_of_row(axes: Sequence[str], shape: Shape, itemsize: int) -> Shape:
    """Return the shape of the part of a row in one chunk: one member, or less if that is huge."""
    piece = [1 if name == "member" else max(1, length) for name, length in zip(axes, shape, strict=True)]
    while math.prod(piece) * itemsize > LARGEST_CHUNK_BYTES:
        longest = piece.index(max(piece))
        piece[longest] = -(-piece[longest] // 2)
    return tuple(piece)
