"""Stored arrays: zarr arrays that tensorstore encodes and decodes, in files that popsim commits.

tensorstore compresses, shards, indexes and checks the checksums of chunks and tables. What it lacks is here:
each file ends in a seal that names the run and the place, so that no file can stand in for another, and is
written atomically.
"""

import contextlib
import dataclasses
import errno
import hashlib
import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from popsim._checks import memory_of_machine
from popsim.store.arrays._layout import ArrayLayout, ShardIndex
from popsim.store.files import CorruptDataError, missing_file, write_file

DIGEST_BYTES = 32
SEAL_BYTES = 32


@dataclasses.dataclass(frozen=True)
class StoredArray:
    """An array of a group: its folder, its layout with the committed length, and the identity of the run.

    `location` is where the folder was when its group was opened, see `real_path`. Entries are read there,
    also after a change of the current folder and in other processes; messages name `folder`.

    Each file ends in the SHA-256 of its bytes so far and a seal, to which zarr's index of the chunks does not
    point: the run, the number of rows, and eight bytes of a SHA-256 of these, the array and the place.
    """

    folder: Path
    layout: ArrayLayout
    run_id: str
    location: Path

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

    def n_bytes(self) -> int:
        """Return the size of the files of the committed rows, as far as they are there."""
        n_bytes = 0
        for place in self.layout.places():
            with contextlib.suppress(FileNotFoundError):
                n_bytes += (self.location / self.layout.shard_name(place)).stat().st_size
        return n_bytes

    def damage(self, *, every_byte: bool) -> Iterator[tuple[str, CorruptDataError]]:
        """Yield the files of the committed rows with which something is wrong, and what.

        Each is read whole, one at a time, or its seal alone.
        """
        for place in self.layout.places():
            name = self.layout.shard_name(place)
            try:
                self._check_seals([place])
                content = (self.location / name).read_bytes()[:-SEAL_BYTES] if every_byte else b""
            except CorruptDataError as error:
                yield name, error
                continue
            if content and hashlib.sha256(content[:-DIGEST_BYTES]).digest() != content[-DIGEST_BYTES:]:
                yield (
                    name,
                    CorruptDataError(f"{self.folder / name} must be as it was written; it is damaged."),
                )

    def read(self, key: tuple[Any, ...]) -> np.ndarray:
        """Return the entries at `key`: an integer, a slice or an array of indices per axis (outer indexing).

        **Raises:** `CorruptDataError` naming a required file that is missing or damaged; `MemoryError` if the
        entries do not fit into memory; `OSError` for what is no damage, such as too many open files.
        """
        import tensorstore

        layout = self.layout
        parts = [_part(*axis) for axis in zip(key, layout.shape, layout.shard, strict=True)]
        shape = tuple(n for _, n, _ in parts if n is not None)
        self._check_memory(math.prod(shape) * np.dtype(layout.dtype).itemsize)
        values = np.empty(shape, layout.dtype)
        if not values.size:
            return values
        files = self._check_seals(itertools.product(*(shards for _, _, shards in parts)))
        folder = {"driver": "file", "path": f"{self.location}/"}
        try:
            stored = _open_array(layout, folder, open=True, assume_metadata=True)
        except (ValueError, RuntimeError) as error:  # before any byte is read, so nothing is damaged
            raise OSError(errno.EINVAL, f"could not be opened: {error}", str(self.folder)) from error
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

    def _check_seals(self, places: Iterable[ShardIndex]) -> list[Path]:
        """Check that files are of the run, in their places, and hold the committed rows; return them."""
        files = []
        for place in places:
            name, rows = self.layout.shard_name(place), self.layout.block(place)[0]
            try:
                with (self.location / name).open("rb") as file:
                    file.seek(max(0, file.seek(0, os.SEEK_END) - SEAL_BYTES))
                    seal = file.read()
            except FileNotFoundError:
                raise missing_file(self.folder / name) from None
            self._check_seal(seal, name, rows.stop - rows.start)
            files.append(self.folder / name)
        return files

    def _check_seal(self, seal: bytes, name: str, n_rows: int) -> None:
        run_id, count = seal[:16].hex(), int.from_bytes(seal[16:24], "little")
        damage = ""
        # Checked against the run and count that it names itself: so damage is told from a file of another
        # run.
        if len(seal) < SEAL_BYTES or seal != _seal(run_id, self.folder.name, name, count):
            damage = "its end is not as it was written, or it has the place of another part"
        elif run_id != self.run_id:
            damage = f"it is of another run, {run_id}, and must be of {self.run_id}"
        elif count < n_rows:
            damage = f"it must have {n_rows} rows, got {count}"
        if damage:
            raise CorruptDataError(
                f"{self.folder / name}, a part of the array {self.folder.name!r}, is damaged: {damage}."
            )

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
