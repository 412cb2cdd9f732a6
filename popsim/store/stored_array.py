"""Stored arrays: zarr arrays that tensorstore encodes and decodes, in files that popsim commits.

Each file ends in a seal that names the run and the place, so that no file can stand in for another, and is
written atomically.

A chunk holds one member and about 512 KB: about ten rows of the weights of a small network, thousands of a
loss. The rows of a shard stay in memory until it is full; for arrays that grow together, a given memory gives
the fewest files if the rows per shard are proportional to one over the square root of the bytes per row.
"""

import dataclasses
import errno
import hashlib
import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from popsim._shared.checks import memory_of_machine
from popsim.store.files import CorruptDataError, missing_file, write_file

__all__ = ["ArrayLayout", "StoredArray"]

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES += ("float16", "float32", "float64")

Shape = tuple[int, ...]
ShardIndex = tuple[int, ...]
DIGEST_BYTES = SEAL_BYTES = 32


@dataclasses.dataclass(frozen=True)
class ArrayLayout:
    """The axes and data type of an array, and the shapes of the array, its chunks and its shards."""

    axes: tuple[str, ...]
    dtype: str
    shape: Shape
    chunk: Shape
    shard: Shape

    @property
    def shards_by_axis(self) -> Shape:
        """The number of shards along each axis."""
        return tuple(-(-length // part) for length, part in zip(self.shape, self.shard, strict=True))

    def of_length(self, length: int) -> "ArrayLayout":
        """Return the same layout with another number of rows."""
        return dataclasses.replace(self, shape=(length, *self.shape[1:]))

    def shard_name(self, place: ShardIndex) -> str:
        """Return the file name of a shard."""
        return ".".join(["c", *map(str, place)])

    def places(self, first: int | None = None) -> Iterator[ShardIndex]:
        """Return the places of the shards in order, all or those at `first` along the first axis."""
        n_first, *counts = self.shards_by_axis
        return itertools.product(range(n_first) if first is None else [first], *map(range, counts))

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
    def parse(cls, metadata: Mapping[str, Any]) -> "ArrayLayout":
        """Invert `metadata`."""
        shard = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        chunk = metadata["codecs"][0]["configuration"]["chunk_shape"]
        axes, shape = metadata["dimension_names"], metadata["shape"]
        return cls(tuple(axes), metadata["data_type"], *map(tuple, (shape, chunk, shard)))


CHUNK_BYTES = 2**19
CHUNK_ROWS = 2**12
LARGEST_CHUNK_BYTES = 2**23
SHARD_BYTES = 2**24
SHARD_ROWS = 2**12  # encoded anew at each commit: what that takes must settle early in a training
BUFFERED_BYTES = 3 * 2**23


def cut(rows: Mapping[str, tuple[Sequence[str], Shape, int]]) -> dict[str, tuple[Shape, Shape]]:
    """Choose the chunk and shard shapes of arrays that grow together; both begin with a number of rows.

    Of each, `rows` has the names and lengths of the axes of a row, and the bytes per number. One shard of
    every array together takes about `BUFFERED_BYTES`, unless a single row takes more.
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
    piece = [1 if name == "member" else max(1, length) for name, length in zip(axes, shape, strict=True)]
    while math.prod(piece) * itemsize > LARGEST_CHUNK_BYTES:
        longest = piece.index(max(piece))
        piece[longest] = -(-piece[longest] // 2)
    return tuple(piece)


@dataclasses.dataclass(frozen=True)
class StoredArray:
    """An array of a group: its folder, its layout with the committed length, and the identity of the run.

    Each file ends in the SHA-256 of its bytes so far and a seal, to which zarr's index of the chunks does not
    point: the run, the number of rows, and eight bytes of a SHA-256 of these, the array and the place.
    """

    folder: Path
    layout: ArrayLayout
    run_id: str

    def write(self, first: int, rows: np.ndarray) -> None:
        """Write all rows of the shards at index `first` along the first axis, each file atomically."""
        layout = self.layout.of_length(first * self.layout.shard[0] + len(rows))
        store = _open_array(layout, {"driver": "memory"}, create=True)
        for place in layout.places(first):
            block, name = layout.block(place), layout.shard_name(place)
            store[block].write(
                rows[(slice(None), *block[1:])], can_reference_source_data_indefinitely=True
            ).result()
            # Encoded in memory, as tensorstore would write the file itself, and not with a seal.
            content = store.kvstore[name]
            del store.kvstore[name]
            seal = _seal(self.run_id, self.folder.name, name, len(rows))
            write_file(self.folder / name, [content, hashlib.sha256(content).digest(), seal])

    def damage(self, *, every_byte: bool) -> Iterator[tuple[str, CorruptDataError]]:
        """Yield the files of the committed rows in which something is wrong: in a byte, or in their seals."""
        for place in self.layout.places():
            name = self.layout.shard_name(place)
            try:
                file = self._check_seal(place)
                content = file.read_bytes()[:-SEAL_BYTES] if every_byte else b""
            except CorruptDataError as error:
                yield name, error
                continue
            if content and hashlib.sha256(content[:-DIGEST_BYTES]).digest() != content[-DIGEST_BYTES:]:
                yield name, CorruptDataError(f"{file} must be as it was written; it is damaged.")

    def read(self, key: tuple[Any, ...]) -> np.ndarray:
        """Return the entries at `key`: an integer, a slice or an array of indices per axis (outer indexing).

        **Raises:** `CorruptDataError` naming a file that is missing or damaged; `MemoryError` if they do not
        fit into memory; `OSError` for what is no damage, such as too many open files.
        """
        import tensorstore

        layout = self.layout
        parts = [_part(*axis) for axis in zip(key, layout.shape, layout.shard, strict=True)]
        shape = tuple(n for _, n, _ in parts if n is not None)
        self._check_memory(math.prod(shape) * np.dtype(layout.dtype).itemsize)
        values = np.empty(shape, layout.dtype)
        if not values.size:
            return values
        rows = parts[0][0]
        # Of rows that a later commit has cut off, those that are not asked for need not be there.
        end = rows.stop if isinstance(rows, slice) else int(np.max(rows)) + 1
        places = itertools.product(*(shards for _, _, shards in parts))
        files = [self._check_seal(place, end) for place in places]
        stored = self._open(files)
        entries = stored.oindex[tuple(index for index, _, _ in parts)]
        try:
            tensorstore.array(values).write(entries).result()  # takes half the time of `entries.read()`
            return values
        except ValueError as error:
            code = re.search(r"(?:os_error_code='|OS error )(\d+)", str(error))
            if code and (number := int(code[1])) != errno.EIO:
                raise OSError(number, os.strerror(number), str(self.folder)) from error
            damaged = next((file for file in files if f'{file.name}"' in str(error)), self.folder)
            raise CorruptDataError(
                f"{damaged}, a part of the array {self.folder.name!r}, is damaged: {error}"
            ) from error

    def _open(self, files: Iterable[Path]) -> Any:
        """Return the array of tensorstore in the folder, of which `files` are read."""
        path = f"{self.folder}/".replace("//", "/", 1)  # with which a path may begin
        # tensorstore takes "\\" for a slash, and names that end in ".__lock" for its own.
        if "\\" not in path and ".__lock/" not in path:
            return _open_array(self.layout, {"driver": "file", "path": path}, open=True, assume_metadata=True)
        stored = _open_array(self.layout, {"driver": "memory"}, create=True)
        for file in files:
            stored.kvstore[file.name] = file.read_bytes()
        return stored

    def _check_seal(self, place: ShardIndex, end: int | None = None) -> Path:
        """Check that a file is of the run, in its place, with the committed rows before `end`; return it."""
        name, rows = self.layout.shard_name(place), self.layout.block(place)[0]
        last = rows.stop if end is None else min(rows.stop, end)
        path = self.folder / name
        try:
            with path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - SEAL_BYTES))
                seal = file.read()
        except FileNotFoundError:
            raise missing_file(path) from None
        run_id, count, n_rows = seal[:16].hex(), int.from_bytes(seal[16:24], "little"), last - rows.start
        damage = ""
        # With the run and the count that it names itself, damage is told from a file of another run.
        if len(seal) < SEAL_BYTES or seal != _seal(run_id, self.folder.name, name, count):
            damage = "its end is not as it was written, or it has the place of another part"
        elif run_id != self.run_id:
            damage = f"it is of another run, {run_id}, and must be of {self.run_id}"
        elif count < n_rows:
            damage = f"it must have {n_rows} rows, got {count}"
        if damage:
            raise CorruptDataError(f"{path}, a part of the array {self.folder.name!r}, is damaged: {damage}.")
        return path

    def _check_memory(self, n_bytes: int) -> None:
        # The system gives memory that it does not have, and ends the process when it is filled.
        if (memory := memory_of_machine()) is not None and n_bytes > memory:
            axis = self.layout.axes[0]
            raise MemoryError(
                f"what is read of the array {self.folder.name!r} at once must fit into memory, got "
                f"{n_bytes / 1e9:.3g} GB: take parts by .isel({{{axis!r}: slice(0, 50)}}), or with dask "
                f"installed .chunk({{{axis!r}: 50}}) before .mean() and the like."
            )


def _seal(run_id: str, array: str, name: str, n_rows: int) -> bytes:
    content = bytes.fromhex(run_id) + n_rows.to_bytes(8, "little")
    place = hashlib.sha256(b"/".join((content, array.encode(), name.encode()))).digest()
    return content + place[: SEAL_BYTES - len(content)]


def _part(key: Any, length: int, shard: int) -> tuple[Any, int | None, Iterable[int]]:
    """Return a key along one axis for tensorstore, the length it selects, and the shards that it touches."""
    if isinstance(key, int | np.integer):
        return int(key), None, [int(key) // shard]
    selection = range(length)[key] if isinstance(key, slice) else np.asarray(key, int)
    if isinstance(selection, range) and selection.step == 1 and selection:
        shards = range(selection.start // shard, -(-selection.stop // shard))
        return slice(selection.start, selection.stop), len(selection), shards
    indices = np.asarray(selection, int)
    return indices, len(indices), np.unique(indices // shard).tolist()


def _open_array(layout: ArrayLayout, kvstore: dict[str, Any], **options: Any) -> Any:
    """Return an array of tensorstore, in which nothing missing passes for data."""
    import tensorstore

    return tensorstore.open(
        {
            "driver": "zarr3",
            "kvstore": kvstore,
            "metadata": layout.metadata(),
            "store_data_equal_to_fill_value": True,
            "fill_missing_data_reads": False,
        },
        context=tensorstore.Context(),
        **options,
    ).result()
