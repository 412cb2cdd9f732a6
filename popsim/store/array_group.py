"""A group of stored arrays: the record of its committed rows, and how it is opened, listed and removed."""

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from popsim.store.files import CorruptDataError, finished_name, is_of_system, remove_left_over, seal, unseal
from popsim.store.identity import RUN_ID, check_run_id
from popsim.store.json_files import read_json, write_json
from popsim.store.stored_array import ArrayLayout, StoredArray

__all__ = ["list_arrays", "open_arrays"]

KEY, GROUP = "popsim_arrays", "group"


@dataclasses.dataclass(frozen=True)
class CommitRecord:
    """The layouts of the committed arrays, the attributes of the group, and the identity of the run.

    All are in the zarr.json of the group, under one checksum; arrays have none of their own.
    """

    folder: Path
    layouts: Mapping[str, ArrayLayout]
    attributes: Mapping[str, Any]
    run_id: str

    def arrays(self) -> dict[str, StoredArray]:
        """Return the committed arrays, by name."""
        # Absolute, so that it also holds in another current folder, and in other processes.
        folder = self.folder.resolve()
        return {
            name: StoredArray(folder / name, layout, self.run_id) for name, layout in self.layouts.items()
        }

    @property
    def lengths(self) -> dict[str, int]:
        """The number of committed rows, by axis."""
        return {layout.axes[0]: layout.shape[0] for layout in self.layouts.values()}

    def dataset(self) -> Any:
        """Return the committed arrays as a lazy `xarray.Dataset`."""
        from popsim.store._lazy_dataset import lazy_dataset

        return lazy_dataset(self.arrays(), self.attributes)

    def damage(self, *, every_byte: bool = True) -> Iterator[tuple[str, CorruptDataError]]:
        """Yield the files of the committed rows with which something is wrong, and what."""
        for name, array in self.arrays().items():
            for file, error in array.damage(every_byte=every_byte):
                yield f"{name}/{file}", error

    def write(self) -> None:
        """Write the record, in one atomic step."""
        metadata = {name: layout.metadata() for name, layout in self.layouts.items()}
        group = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": self.attributes,
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": metadata},
        }
        record = seal({RUN_ID: self.run_id, GROUP: group})
        del record[GROUP]
        write_json(self.folder / "zarr.json", {**group, "attributes": {**self.attributes, KEY: record}})

    @classmethod
    def read(cls, folder: Path, run_id: str | None = None) -> "CommitRecord":
        """Read the record in `folder`, of the run `run_id` or any; errors as `open_arrays`."""
        path = folder / "zarr.json"
        if not path.exists() and not any(folder.glob("*/c.*")):
            raise ValueError(f"`path` must be a folder of arrays, got {folder}: it has no zarr.json.")
        group = read_json(path)
        try:
            attributes = dict(group["attributes"])
            record = {**attributes.pop(KEY), GROUP: {**group, "attributes": attributes}}
        except (KeyError, TypeError, ValueError):
            attributes, record = {}, None
        record = unseal(path, record)
        check_run_id(record[RUN_ID], run_id, path)
        arrays = group["consolidated_metadata"]["metadata"].items()
        layouts = {name: ArrayLayout.parse(metadata) for name, metadata in arrays}
        return cls(folder, layouts, attributes, record[RUN_ID])


def open_arrays(path: str | Path, *, run_id: str | None = None) -> Any:
    """Open a folder of `GrowingArrays` as a lazy `xarray.Dataset` of the committed rows.

    Arrays with a single axis of their own name are coordinates.

    **Raises:** `ValueError` if there are no such arrays at `path`; `CorruptDataError` naming the file if one
    is damaged, missing or of another run, now or when it is read; `MismatchError` if all are of another run
    than `run_id`, None for any.
    """
    return CommitRecord.read(Path(path), run_id).dataset()


def list_arrays(
    path: str | Path, *, run_id: str | None = None
) -> tuple[list[dict[str, Any]], Mapping[str, Any]]:
    """Return the committed arrays and the JSON values kept with them; errors as `open_arrays`.

    Of each array: its `name`, its `axes`, `shape` and `dtype` as committed, and the `n_bytes` of its files.
    """
    record = CommitRecord.read(Path(path), run_id)
    arrays = []
    for name, layout in record.layouts.items():
        n_bytes = 0
        for file in Path(path, name).glob("*"):
            with contextlib.suppress(FileNotFoundError):  # it is being written
                n_bytes += file.stat().st_size
        form = {"axes": layout.axes, "shape": layout.shape, "dtype": layout.dtype}
        arrays.append({"name": name, **form, "n_bytes": n_bytes})
    return arrays, record.attributes


def remove_array(folder: Path) -> None:
    """Remove the folder of an array, unless it holds foreign files."""
    if not folder.is_symlink() and folder.is_dir() and all(map(_may_go, folder.iterdir())):
        shutil.rmtree(folder)


def remove_arrays(group: Path) -> None:
    """Remove a group of arrays, if there is one; foreign files stay, and then so does its folder."""
    if group.is_symlink() or not group.is_dir():
        return
    for path in [*group.iterdir()]:
        if path.is_dir():
            remove_array(path)
        elif _may_go(path):
            path.unlink()
    with contextlib.suppress(OSError):  # foreign files remain
        group.rmdir()


def remove_stale(group: Path, layouts: Mapping[str, ArrayLayout]) -> None:
    """Remove arrays that have no layout, and files not needed for their rows."""
    for path in group.iterdir():
        if path.name not in layouts and not remove_left_over(path):
            remove_array(path)
    for name, layout in layouts.items():
        needed = {layout.shard_name(place) for place in layout.places()}
        for file in (group / name).iterdir():
            if _is_of_arrays(file.name) and file.name not in needed:
                file.unlink()


def _may_go(file: Path) -> bool:
    return _is_of_arrays(file.name) or is_of_system(file.name)


def _is_of_arrays(name: str) -> bool:
    return name == "zarr.json" or name.startswith("c.") or finished_name(name) is not None
