"""The folder of a run: its layout, and the checks before it is read or written."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from popsim._text_checks import as_path, as_word
from popsim.store.arrays.inspection import remove_arrays
from popsim.store.checkpoints import Checkpoints
from popsim.store.files import (
    CorruptDataError,
    MismatchError,
    missing_file,
    remove_left_over,
)
from popsim.store.json_files import read_json, read_sealed_json
from popsim.store.plain_folder import PlainFolder

__all__ = ["RunFolder"]

FORMAT = 6
READ_ONLY_FORMATS = (5,)  # their durations were rounded one by one, so some trials had other steps


@dataclasses.dataclass(frozen=True)
class RunFolder(PlainFolder):
    """The layout of a run on disk.

    - `run.json`: format and popsim version, identity of the run, experiment and settings; written first;
    - `training.json`: format and popsim version, identity, and the list of what must exist; written when the
        training begins and after each checkpoint;
    - `log.jsonl`: one line per logging point;
    - `history.zarr/`: losses, learning rate, trainables and trials over training batches;
    - `checkpoints/`: the last states of the training, each in a file named by its number of batches;
    - `summary.json`: the figures of merit, in SI units; written when the run is finished;
    - `figures/`: PNG and PDF;
    - `run.lock`: held by the process that writes the folder.

    A training without an experiment has no `run.json`, `summary.json` and `figures/`.
    """

    @property
    def description(self) -> Path:
        """`run.json`."""
        return self.path / "run.json"

    @property
    def training(self) -> Path:
        """`training.json`."""
        return self.path / "training.json"

    @property
    def log(self) -> Path:
        """`log.jsonl`."""
        return self.path / "log.jsonl"

    @property
    def history(self) -> Path:
        """`history.zarr/`."""
        return self.path / "history.zarr"

    @property
    def checkpoints(self) -> Path:
        """`checkpoints/`."""
        return self.path / "checkpoints"

    @property
    def summary(self) -> Path:
        """`summary.json`."""
        return self.path / "summary.json"

    @property
    def figures(self) -> Path:
        """`figures/`."""
        return self.path / "figures"

    @property
    def is_finished(self) -> bool:
        """Whether the run is finished."""
        return self.summary.is_file()

    @property
    def resume_command(self) -> str:
        """The command that finishes the run; it imports the module of an experiment from outside popsim."""
        described = _description_or_empty(self.description) if self.description.is_file() else {}
        return f"popsim {import_option(described)}resume {as_word(self.path)}"

    def present_of_training(self) -> list[str]:
        """Return the names of the existing files of the training; foreign files do not count."""
        present = [file.name for file in (self.log, self.history / "zarr.json") if file.exists()]
        return present + ([self.checkpoints.name] if Checkpoints(self.checkpoints).steps() else [])

    def parts(self) -> dict[Path, bool]:
        """Return the files and folders of the run or training that may exist; whether each is a folder."""
        parts = {self.training: False, self.log: False, self.history: True, self.checkpoints: True}
        if os.path.lexists(self.description):
            parts |= {self.description: False, self.summary: False, self.figures: True}
        return parts

    def remove_left_overs(self) -> None:
        """Remove unfinished files of a killed process, also of figures; call `check_plain` first."""
        super().remove_left_overs()
        if self.figures in self.parts() and self.figures.is_dir():
            for file in [*self.figures.iterdir()]:
                remove_left_over(file)

    @classmethod
    def create(cls, path: str | Path, *, overwrite: bool = False) -> "RunFolder":
        """Create the folder of a new run.

        **Arguments:**

        - `path`: the folder; its parents are created as needed.
        - `overwrite`: whether to delete an existing run. Its `run.json` and its figures stay until new ones
            replace them; files not listed above stay.

        **Raises:** `ValueError` if `path` holds a run and `overwrite` is False, holds something else, or
        cannot be written.
        """
        cls.check_free(path, overwrite=overwrite)
        folder = cls.make(Path(path))
        if overwrite:
            folder._delete_run()
        return folder

    def _delete_run(self) -> None:
        """Delete the files of popsim but `run.json`, without which the folder would be that of nobody."""
        self.remove_left_overs()
        Checkpoints(self.checkpoints).remove()
        remove_arrays(self.history)
        for file in (self.summary, self.log, self.training):
            file.unlink(missing_ok=True)

    @classmethod
    def check_free(cls, path: str | Path, *, overwrite: bool) -> None:
        """Check that a new run may be written into a folder; arguments and errors as for `create`."""
        folder = cls(as_path("out", path))
        folder.check_plain()
        if folder.description.exists():
            if "popsim" not in _description_or_empty(folder.description):
                raise ValueError(f"`out` must not hold anything but a popsim run, got {path}.")
            if not overwrite:
                raise ValueError(
                    f"`out` must not hold a run already, got {path}; use --overwrite to replace it"
                    f"{'' if folder.is_finished else f', or {folder.resume_command} to finish it'}."
                )
        elif foreign := folder.foreign():
            raise ValueError(
                f"`out` must be an empty folder or a run to overwrite, got {path}: it has {foreign}."
            )

    def check_free_for_training(self, *, restore: bool) -> None:
        """Check that a training may be written into the folder.

        **Arguments:**

        - `restore`: whether to continue an existing training.

        **Raises:** `ValueError` if it holds a training with saved state and `restore` is False, or files of
        the same names that no training wrote; `MismatchError` if its format is not the current one;
        `CorruptDataError` if `training.json` was changed, or there is a link.
        """
        self.check_plain()
        if self.training.exists():
            saved = (
                read_description(self.training).get("checkpoints") or Checkpoints(self.checkpoints).steps()
            )
            if not restore and (saved or self.description.exists()):
                raise ValueError(
                    f"`chkpt_dir` must not hold a training already, got {self.path}: "
                    "restore_checkpoint=True continues it."
                )
            check_resumable(self.training)
        elif present := self.present_of_training():
            raise ValueError(
                f"`chkpt_dir` must not hold {', '.join(present)} of something else, got {self.path}: "
                "it has no training.json."
            )

    @classmethod
    def open(cls, path: str | Path) -> "RunFolder":
        """Open the folder of a run, finished or not.

        **Raises:** `ValueError` if there is none; `MismatchError` if it has another format;
        `CorruptDataError` if `run.json` was changed or is lost, or a part of the run is a link.
        """
        folder = cls(as_path("path", path))
        folder.check_plain()
        if not folder.description.is_file():
            if folder.training.is_file() and _description_or_empty(folder.training).get("of_experiment"):
                raise missing_file(folder.description)
            script = (
                "; a script's training is opened by popsim.open_run with `task` and `build`, and continued "
                "by its script with restore_checkpoint=True"
            ) * folder.training.is_file()
            sweep = "; it is a sweep, whose cells/NUMBER are runs" * (folder.path / "sweep.json").is_file()
            raise ValueError(
                f"`path` must be the folder of a popsim run, got {path}: it has no run.json{script}{sweep}."
            )
        read_description(folder.description)
        return folder

    @classmethod
    def open_training(cls, path: str | Path) -> "RunFolder":
        """Open the folder of a training, with or without an experiment.

        **Raises:** `ValueError` if there is none; `CorruptDataError` if a part of it is a link.
        """
        folder = cls(as_path("path", path))
        folder.check_plain()
        if not folder.training.is_file():
            raise ValueError(f"`path` must be the folder of a training, got {path}: it has no training.json.")
        return folder


def import_option(description: Mapping[str, Any]) -> str:
    """Return the command-line options that make an experiment known: `--import MODULE `, with a space.

    **Arguments:**

    - `description`: as in run.json: the `module` of the experiment, and the `network_modules` that register
        networks; those of popsim need no option.
    """
    further = description.get("network_modules")
    modules = [description.get("module"), *(further if isinstance(further, list) else ())]
    named = [module for module in modules if isinstance(module, str) and not module.startswith("popsim.")]
    return "".join(f"--import {_importable(module)} " for module in dict.fromkeys(named))


def _importable(module: str) -> str:
    is_found = module != "__main__" and all(part.isidentifier() for part in module.split("."))
    return module if is_found else "MODULE"


def _description_or_empty(path: Path) -> dict[str, Any]:
    """Read a description; return an empty one if it is not of popsim."""
    try:
        described = read_json(path)
    except ValueError:
        return {}
    return described if isinstance(described, dict) else {}


def read_description(path: Path) -> dict[str, Any]:
    """Read `run.json` or `training.json`.

    Those of `READ_ONLY_FORMATS` are read, too.

    **Raises:** `MismatchError` if it has another format; `CorruptDataError` if it is missing or was changed.
    """
    if "format" not in (described := _description_or_empty(path)):
        raise CorruptDataError(
            f"{path} must be written by popsim; it is missing, damaged, or something else."
        )
    if (version := described["format"]) not in (FORMAT, *READ_ONLY_FORMATS):
        raise MismatchError(f"{path} must have format {FORMAT}, got {version!r}: use another popsim.")
    return read_sealed_json(path)


def check_resumable(path: Path) -> None:
    """Check that the training of a `run.json` or `training.json` may be continued.

    **Raises:** `MismatchError` if it has a format that is only read; otherwise as `read_description`.
    """
    if (version := read_description(path)["format"]) != FORMAT:
        raise MismatchError(
            f"{path} must have format {FORMAT} to be resumed, got {version!r}, which is only read: train "
            "anew in another folder, or resume it with the popsim that began it."
        )
