"""The record of the committed rows of a group of arrays."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from popsim.store.arrays._layout import ArrayLayout
from popsim.store.arrays._stored_array import StoredArray
from popsim.store.files import CorruptDataError, MismatchError, real_path
from popsim.store.identity import RUN_ID, check_run_id
from popsim.store.json_files import digest, read_json, write_json

FORMAT = 1
KEY = "popsim_arrays"


@dataclasses.dataclass(frozen=True)
class CommitRecord:
    """The layouts of the committed arrays, the attributes of the group, and the identity of the run.

    All are in the zarr.json of the group, under one checksum. The zarr.json of each array repeats its layout
    for other software; its length may be that of another commit, and popsim does not read it.
    """

    layouts: Mapping[str, ArrayLayout]
    attributes: Mapping[str, Any]
    run_id: str

    def arrays(self, folder: Path) -> dict[str, StoredArray]:
        """Return the arrays in the folder of the group."""
        location = real_path(folder)
        return {
            name: StoredArray(folder / name, layout, self.run_id, location / name)
            for name, layout in self.layouts.items()
        }

    @property
    def lengths(self) -> dict[str, int]:
        """The number of committed rows, by growing axis."""
        return {layout.axes[0]: layout.shape[0] for layout in self.layouts.values() if layout.grows}

    def write(self, folder: Path) -> None:
        """Write the record into `folder`, in one atomic step."""
        metadata = {name: layout.metadata() for name, layout in self.layouts.items()}
        # The group comes last, as it is what popsim reads: after a crash before that, the old commit stands.
        for name, array_metadata in metadata.items():
            write_json(folder / name / "zarr.json", array_metadata)
        fixed = [name for name, layout in self.layouts.items() if not layout.grows]
        record: dict[str, Any] = {"format": FORMAT, RUN_ID: self.run_id, "fixed": fixed}
        group = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {**self.attributes, KEY: record},
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": metadata},
        }
        record["checksum"] = digest(group)
        write_json(folder / "zarr.json", group)

    @classmethod
    def read(cls, folder: Path, run_id: str | None = None) -> "CommitRecord":
        """Read the record in `folder`, of the run `run_id` if that is given.

        **Raises:** `ValueError` if the folder holds no arrays of popsim; `CorruptDataError` naming zarr.json
        if it is damaged, or missing although there are arrays; `MismatchError` if it is of another run.
        """
        path = folder / "zarr.json"
        if not path.exists() and not any(folder.glob("*/zarr.json")):
            raise ValueError(f"`path` must be a folder of arrays, got {folder}: it has no zarr.json.")
        group = read_json(path)
        try:
            attributes = dict(group["attributes"])
            record = dict(attributes.pop(KEY))
            checksum = record.pop("checksum")
            is_sound = checksum == digest({**group, "attributes": {**attributes, KEY: record}})
        except (KeyError, TypeError, ValueError):
            is_sound, record, attributes = False, {}, {}
        if not is_sound:
            raise CorruptDataError(f"{path} must be as popsim wrote it; it is damaged.")
        if (version := record["format"]) != FORMAT:
            raise MismatchError(f"{path} must have format {FORMAT}, got {version!r}: use another popsim.")
        check_run_id(record[RUN_ID], run_id, path)
        layouts = {
            name: ArrayLayout.parse(metadata, grows=name not in record["fixed"])
            for name, metadata in group["consolidated_metadata"]["metadata"].items()
        }
        return cls(layouts, attributes, record[RUN_ID])
