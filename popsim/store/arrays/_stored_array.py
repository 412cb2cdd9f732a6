"""Stored arrays: zarr arrays that tensorstore encodes and decodes, in files that popsim commits.

tensorstore compresses, shards, indexes and checks the checksums of chunks and tables. What it lacks is here:
each file ends in a seal that names the run and the place, so that no file can stand in for another; it is
written atomically; and links, pipes and absurd sizes are refused before tensorstore opens anything.
"""

import contextlib
import dataclasses
import errno
import hashlib
import itertools
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from popsim._checks import memory_of_machine, warn_caller
from popsim.store.arrays._layout import ArrayLayout, Shape, ShardIndex
from popsim.store.files import CorruptDataError, missing_file, read_plain, write_file
from popsim.store.json_files import read_json

LARGEST_COMPRESSION = 2**15
SEAL_BYTES = 32
TIMES_IN_MEAN = 3  # xarray holds the array, a mask of what is NaN, and a copy without NaN


@dataclasses.dataclass(frozen=True)
class StoredArray:
    """An array of a group: its folder, its layout with the committed length, and the identity of the run.

    `location` is where the folder was when its group was opened, see `real_path`. Entries are read there,
    also after a change of the current folder and in other processes; messages name `folder`.

    Each file ends in a seal, to which zarr's index of the chunks does not point: the run, the number of rows,
    and eight bytes of a SHA-256 of these, the array and the place.
    """

    folder: Path
    layout: ArrayLayout
    run_id: str
    location: Path

    def write(self, first: int, rows: np.ndarray) -> None:
        """Write the shards at `first` along the first axis, each file atomically.

        **Arguments:**

        - `first`: the index of the shards along the first axis.
        - `rows`: all rows of these shards, at most as many as fit.
        """
        layout = self.layout.of_length(first * self.layout.shard[0] + len(rows))
        store = _open_array(layout, {"driver": "memory"}, create=True)
        for place in layout.places(first):
            block, name = layout.block(place), layout.shard_name(place)
            store[block].write(
                rows[(slice(None), *block[1:])], can_reference_source_data_indefinitely=True
            ).result()
            content = store.kvstore[name]
            del store.kvstore[name]
            write_file(self.folder / name, [content, self._seal(name, len(rows))])

    def check_description(self) -> None:
        """Check that the folder has a zarr.json that describes the array as the group does.

        **Raises:** `CorruptDataError` naming what is not so.
        """
        if self.folder.is_symlink():
            raise CorruptDataError(f"{self.folder} must be a plain folder, not a link.")
        path = self.folder / "zarr.json"
        stored, expected = read_json(path), self.layout.metadata()
        if isinstance(stored, dict) and isinstance(shape := stored.get("shape"), list) and self.layout.grows:
            stored |= {"shape": [*expected["shape"][:1], *shape[1:]]}  # the length may be of another commit
        if stored != expected:
            raise CorruptDataError(f"{path} must describe the array as its group does; it is damaged.")

    def check_files(self) -> int:
        """Check that the files on disk suffice for the committed rows.

        **Returns:** their size in bytes.

        **Raises:** `CorruptDataError` naming the first that is missing, a link, or too small for its rows.
        """
        self.check_description()
        with os.scandir(self.folder) as entries:
            files = {entry.name: entry for entry in entries}
        n_bytes = 0
        for place in self.layout.places():
            name = self.layout.shard_name(place)
            path = self.folder / name
            if name not in files:
                raise missing_file(path)
            if not files[name].is_file(follow_symlinks=False):
                raise CorruptDataError(f"{path} must be a plain file.")
            if (size := files[name].stat().st_size) < SEAL_BYTES:
                raise CorruptDataError(f"{path} must hold a part of the array; it is damaged.")
            n_bytes += size
        if (declared := self.layout.n_bytes) > LARGEST_COMPRESSION * n_bytes:
            raise CorruptDataError(f"{self.folder} must hold {declared} bytes, got {n_bytes} bytes on disk.")
        return n_bytes

    def check_seals(self, places: Iterable[ShardIndex] | None = None) -> list[Path]:
        """Check that files are of the run, in their places, and hold the committed rows.

        **Returns:** the files at `places`, or all.

        **Raises:** `CorruptDataError` naming the first that is not.
        """
        files, array = [], f"a part of the array {self.folder.name!r}"
        for place in self.layout.places() if places is None else places:
            name = self.layout.shard_name(place)
            path, rows = self.folder / name, self.layout.block(place)[0]
            try:
                with read_plain(self.location / name) as file:
                    file.seek(max(0, file.seek(0, os.SEEK_END) - SEAL_BYTES))
                    self._check_seal(file.read(), path, rows.stop - rows.start)
            except FileNotFoundError:
                raise CorruptDataError(f"there must be a file {path}, {array}; it is missing.") from None
            files.append(path)
        return files

    def _seal(self, name: str, n_rows: int) -> bytes:
        content = bytes.fromhex(self.run_id) + n_rows.to_bytes(8, "little")
        return content + hashlib.sha256(content + f"{self.folder.name}/{name}".encode()).digest()[:8]

    def _check_seal(self, seal: bytes, path: Path, n_rows: int) -> None:
        run_id, count = seal[:16].hex(), int.from_bytes(seal[16:24], "little")
        damage = ""
        if len(seal) < SEAL_BYTES or seal != dataclasses.replace(self, run_id=run_id)._seal(path.name, count):
            damage = "its end is not as it was written, or it has the place of another part"
        elif run_id != self.run_id:
            damage = f"it is of another run, {run_id}, and must be of {self.run_id}"
        elif count < n_rows:
            damage = f"it must have {n_rows} rows, got {count}"
        if damage:
            raise CorruptDataError(f"{path}, a part of the array {self.folder.name!r}, is damaged: {damage}.")

    def read(self, key: tuple[Any, ...]) -> np.ndarray:
        """Return the entries at `key`: an integer, a slice or an array of indices per axis (outer indexing).

        **Raises:** `CorruptDataError` naming a required file that is missing or damaged; `MemoryError` if the
        entries do not fit into memory; `OSError` for what is no damage, such as too many open files.
        """
        import tensorstore

        layout = self.layout
        parts = [_part(*axis) for axis in zip(key, layout.shape, layout.shard, strict=True)]
        values = self._empty(tuple(n for _, n, _ in parts if n is not None))
        if not values.size:
            return values
        files = self.check_seals(itertools.product(*(shards for _, _, shards in parts)))
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
            if (number := _error_of_system(error)) not in (None, errno.EIO):
                raise OSError(number, os.strerror(number), str(self.folder)) from error
            damaged = next((file for file in files if f'{file.name}"' in str(error)), self.folder)
            raise CorruptDataError(
                f"{damaged}, a part of the array {self.folder.name!r}, is damaged: {error}"
            ) from error

    def _empty(self, shape: Shape) -> np.ndarray:
        """Allocate the result after a size check: the system may kill the process only when it is filled."""
        n_bytes, memory = math.prod(shape) * np.dtype(self.layout.dtype).itemsize, memory_of_machine()
        read = f"what is read of the array {self.folder.name!r} at once"
        first = self.layout.axes[0]
        parts = (
            f"take parts by .isel({{{first!r}: slice(0, 50)}}), or with dask installed "
            f".chunk({{{first!r}: 50}}) before .mean() and the like."
        )
        with contextlib.suppress(MemoryError):
            if memory is None or n_bytes <= memory:
                values = np.empty(shape, self.layout.dtype)
                if memory is not None and n_bytes > memory / TIMES_IN_MEAN:
                    warn_caller(
                        f"{read}, {n_bytes / 1e9:.3g} GB, is more than a third of the memory, and .mean() "
                        "and the like of xarray take three times its size: the system may end the process. "
                        f"If so, {parts}"
                    )
                return values
        raise MemoryError(f"{read} must fit into memory, got {n_bytes / 1e9:.3g} GB: {parts}")


def _error_of_system(error: ValueError) -> int | None:
    """Return the error number of the system in an error of tensorstore; None if there is none."""
    code = re.search(r"(?:os_error_code='|OS error )(\d+)", str(error))
    return int(code[1]) if code else None


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
