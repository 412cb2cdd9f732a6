"""The folder of a run: which file is where, and who may write it."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

from popsim.store.json_files import read_json

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """The layout of a run on disk.

    - `run.json`: format and popsim version, the experiment and its settings; written first;
    - `log.jsonl`: a line for each logging point;
    - `ensemble.zarr`: the arrays of the trained ensemble;
    - `history.zarr`: losses, learning rate and trainables over training batches;
    - `summary.json`: the figures of merit, in SI units;
    - `figures/`: PNG and PDF.
    """

    path: Path

    @property
    def description(self) -> Path:
        """`run.json`."""
        return self.path / "run.json"

    @property
    def log(self) -> Path:
        """`log.jsonl`."""
        return self.path / "log.jsonl"

    @property
    def ensemble(self) -> Path:
        """`ensemble.zarr`."""
        return self.path / "ensemble.zarr"

    @property
    def history(self) -> Path:
        """`history.zarr`."""
        return self.path / "history.zarr"

    @property
    def summary(self) -> Path:
        """`summary.json`."""
        return self.path / "summary.json"

    @property
    def figures(self) -> Path:
        """`figures/`."""
        return self.path / "figures"

    def _data(self) -> list[Path]:
        return [self.description, self.log, self.ensemble, self.history, self.summary]

    @classmethod
    def create(cls, path: Path, *, overwrite: bool = False) -> "RunFolder":
        """Make the folder of a new run.

        **Arguments:**

        - `path`: where; its parent folders are made as needed.
        - `overwrite`: whether to delete a run that is already there. Figures stay until new ones of the
            same name replace them, and so does all that is not listed above.

        **Raises:** `ValueError` if `path` holds a run and `overwrite` is False, is not a run folder and
        not empty, or cannot be written.
        """
        cls.check_free(path, overwrite=overwrite)
        folder = cls(Path(path))
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            probe = folder.path / ".popsim-writable"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise ValueError(f"`out` must be a folder that can be written, got {path}: {error}") from None
        for own in folder._data():
            shutil.rmtree(own) if own.is_dir() else own.unlink(missing_ok=True)
        return folder

    @classmethod
    def check_free(cls, path: Path, *, overwrite: bool) -> None:
        """Refuse a folder that a new run may not be written into; arguments and errors as for `create`."""
        folder = cls(Path(path))
        if folder.description.exists():
            if "popsim" not in folder._described():
                raise ValueError(f"`out` must not hold anything but a popsim run, got {path}.")
            if not overwrite:
                raise ValueError(
                    f"`out` must not hold a run already, got {path}; use --overwrite to replace it."
                )
        elif any(own.exists() for own in [*folder._data(), folder.figures]):
            raise ValueError(f"`out` must be an empty folder or a run to overwrite, got {path}.")

    def _described(self) -> dict[str, Any]:
        """What `run.json` says; nothing if it is none of ours."""
        try:
            described = read_json(self.description)
        except ValueError:
            return {}
        return described if isinstance(described, dict) else {}

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """The folder of a finished run.

        **Raises:** `ValueError` if there is none, or it was written in a format that is not known.
        """
        folder = cls(Path(path))
        if not folder.description.is_file():
            raise ValueError(f"`path` must be the folder of a popsim run, got {path}: it has no run.json.")
        if not folder.ensemble.is_dir():
            raise ValueError(f"the run {path} must be finished: it has no trained ensemble.")
        found = folder._described().get("format")
        if found != FORMAT:
            raise ValueError(f"the run {path} must have format {FORMAT}, got {found!r}: use another popsim.")
        return folder
