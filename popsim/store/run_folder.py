"""The folder of a run: its layout, and the checks before it is read or written."""

import contextlib
import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from popsim._text_checks import as_path
from popsim.store.arrays.inspection import remove_arrays
from popsim.store.checkpoints import Checkpoints
from popsim.store.files import (
    CorruptDataError,
    MismatchError,
    missing_file,
    read_plain,
    remove_left_over,
)
from popsim.store.identity import RUN_ID, check_run_id, is_run_id, new_run_id
from popsim.store.json_files import SealedFormat
from popsim.store.plain_folder import FolderPart, PlainFolder, description_or_empty
from popsim.store.yaml_files import LARGEST_BYTES

__all__ = ["DescribedRun", "RunFolder"]

CONFIG_DIGEST = "config_sha256"  # in run.json: of run.yaml
FORMAT = 7
# In those of 5 durations were rounded one by one, so some trials had other steps; 6 does not say what a
# training step computes.
READ_ONLY_FORMATS = (5, 6)
DESCRIPTION = SealedFormat(FORMAT, READ_ONLY_FORMATS)
"""The format of `run.json` and of `training.json`."""


@dataclasses.dataclass(frozen=True)
class RunFolder(PlainFolder):
    """The layout of a run on disk.

    - `run.json`: format and popsim version, identity of the run, experiment and settings; written first;
    - `training.json`: format and popsim version, identity, and the list of what must exist; written when the
        training begins and after each checkpoint;
    - `log.jsonl`: one line per log point;
    - `history.zarr/`: losses, learning rate, trainables and trials over training batches;
    - `checkpoints/`: the last states of the training, each in a file named by its number of batches;
    - `run.yaml`: the settings for `popsim train --config`, of which nothing is read otherwise;
    - `summary.json`: the metrics, in SI units; written when the run is finished;
    - `figures/`: PNG and PDF;
    - `tensorboard/`: events for TensorBoard, if they were asked for;
    - `run.lock`: held by the process that writes the folder.

    A training without an experiment has no `run.json`, `run.yaml`, `summary.json`, `figures/` and
    `tensorboard/`.
    """

    description = FolderPart("run.json")
    config = FolderPart("run.yaml")
    training = FolderPart("training.json")
    log = FolderPart("log.jsonl")
    history = FolderPart("history.zarr", is_folder=True)
    checkpoints = FolderPart("checkpoints", is_folder=True)
    summary = FolderPart("summary.json")
    figures = FolderPart("figures", is_folder=True)
    tensorboard = FolderPart("tensorboard", is_folder=True)

    @property
    def is_finished(self) -> bool:
        """Whether the run is finished."""
        return self.summary.is_file()

    @property
    def resume_command(self) -> str:
        """The command that finishes the run."""
        return self.command("resume")

    def existing_training_files(self) -> list[str]:
        """Return the names of the existing files of the training; foreign files do not count."""
        present = [file.name for file in (self.log, self.history / "zarr.json") if file.exists()]
        return present + ([self.checkpoints.name] if Checkpoints(self.checkpoints).steps() else [])

    def possible_paths(self) -> dict[Path, bool]:
        """Return the files and folders of the run or training that may exist; whether each is a folder."""
        parts = super().possible_paths()
        if not os.path.lexists(self.description):  # files of these names may be of somebody else
            for path in (self.description, self.config, self.summary, self.figures, self.tensorboard):
                del parts[path]
        return parts

    def remove_left_overs(self) -> None:
        """Remove unfinished files of a killed process, also of figures; call `check_plain` first."""
        super().remove_left_overs()
        if self.figures in self.possible_paths() and self.figures.is_dir():
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
        if self.config_problem(description_or_empty(self.description)) == "":
            self.config.unlink()
        for file in (self.summary, self.log, self.training, *self.tensorboard.glob("events.out.tfevents.*")):
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # missing, or with files of others
            self.tensorboard.rmdir()

    def config_problem(self, described: Mapping[str, Any]) -> str | None:
        """Return how `run.yaml` differs from what popsim wrote; empty if it does not, None if it wrote none.

        **Arguments:**

        - `described`: the content of `run.json`.
        """
        if not isinstance(written := described.get(CONFIG_DIGEST), str):
            return None
        try:
            with read_plain(self.config) as file:
                is_same = hashlib.sha256(file.read(LARGEST_BYTES + 1)).hexdigest() == written
        except FileNotFoundError:
            return "must be there; it is missing: the settings are in run.json, too"
        return "" if is_same else "is not as popsim wrote it: the settings of the run are in run.json"

    @classmethod
    def check_free(cls, path: str | Path, *, overwrite: bool) -> None:
        """Check that a new run may be written into a folder; arguments and errors as for `create`."""
        folder = cls(as_path("out", path))
        folder.check_plain()
        if folder.description.exists():
            if "popsim" not in description_or_empty(folder.description):
                raise ValueError(f"`out` must not hold anything but a popsim run, got {path}.")
            if not overwrite:
                raise ValueError(
                    f"`out` must not hold a run already, got {path}; --overwrite replaces it, and --seed or "
                    "--out begins another."
                    f"{'' if folder.is_finished else f' To finish it: {folder.resume_command}'}"
                )
        elif foreign := folder.foreign_file():
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
            content = DESCRIPTION.read(self.training)
            saved = content.get("checkpoints") or Checkpoints(self.checkpoints).steps()
            if not restore and (saved or self.description.exists()):
                raise ValueError(
                    f"`chkpt_dir` must not hold a training already, got {self.path}: "
                    "restore_checkpoint=True continues it."
                )
            check_resumable(self.training, content)
        elif present := self.existing_training_files():
            raise ValueError(
                f"`chkpt_dir` must not hold {', '.join(present)} of something else, got {self.path}: "
                "it has no training.json."
            )

    @classmethod
    def open(cls, path: str | Path) -> "DescribedRun":
        """Open the folder of a run, finished or not, and read its `run.json`.

        **Raises:** `ValueError` if there is none; `MismatchError` if it has another format;
        `CorruptDataError` if `run.json` was changed or is lost, or a part of the run is a link.
        """
        folder = cls(as_path("path", path))
        folder.check_plain()
        if not folder.description.is_file():
            # Without `run.json`, only this entry tells a run that lost it from the training of a script.
            if folder.training.is_file() and description_or_empty(folder.training).get("of_experiment"):
                raise missing_file(folder.description)
            script = (
                "; a script's training is opened by popsim.open_run with `task` and `build`, and continued "
                "by its script with restore_checkpoint=True"
            ) * folder.training.is_file()
            sweep = "; it is a sweep, whose cells/NUMBER are runs" * (folder.path / "sweep.json").is_file()
            raise ValueError(
                f"`path` must be the folder of a popsim run, got {path}: it has no run.json{script}{sweep}."
            )
        return DescribedRun.read(folder)

    @classmethod
    def open_training(cls, path: str | Path) -> "DescribedRun":
        """Open the folder of a training, with or without an experiment.

        **Raises:** `ValueError` if there is none; `MismatchError` if it has another format;
        `CorruptDataError` if its description was changed, or a part of it is a link.
        """
        folder = cls(as_path("path", path))
        folder.check_plain()
        if not folder.training.is_file():
            raise ValueError(f"`path` must be the folder of a training, got {path}: it has no training.json.")
        return DescribedRun.read(folder)


@dataclasses.dataclass(frozen=True)
class DescribedRun:
    """A run, or a training without an experiment, with its description, which is read and checked once.

    It is passed on to all that needs it. The description is as it was when it was read: who writes it reads
    it anew after taking the lock of the folder, as another process may have written it meanwhile.

    - `folder`: the folder.
    - `path`: `run.json`, or without an experiment `training.json`.
    - `content`: what is in this file.
    """

    folder: RunFolder
    path: Path
    content: Mapping[str, Any]

    @classmethod
    def read(cls, folder: RunFolder) -> "DescribedRun":
        """Read the description of a run or a training; errors as `SealedFormat.read`."""
        # `run.json` is written before `training.json`, and is there in every run of an experiment.
        path = folder.description if folder.description.is_file() else folder.training
        return cls(folder, path, DESCRIPTION.read(path))

    @classmethod
    def create(cls, folder: RunFolder, entries: Mapping[str, Any]) -> "DescribedRun":
        """Write the `run.json` of a new run, with an identity; its folder must be locked."""
        content = {"format": FORMAT, RUN_ID: new_run_id(), **entries}
        DESCRIPTION.write(folder.description, content)
        return cls(folder, folder.description, content)

    def reread(self) -> "DescribedRun":
        """Return the run as it is described now; raises `MismatchError` if there is another run by now."""
        described = self.read(self.folder)
        # The folder may have been overwritten by another run between the two reads.
        check_run_id(described.content.get(RUN_ID), self.run_id, described.path)
        return described

    @property
    def is_run(self) -> bool:
        """Whether it is the run of an experiment."""
        return self.path == self.folder.description

    @property
    def is_finished(self) -> bool:
        """Whether the run is finished."""
        return self.folder.is_finished

    @functools.cached_property
    def run_id(self) -> str:
        """The identity of the run; raises `CorruptDataError` if there is none."""
        if not is_run_id(stored_id := self.content.get(RUN_ID)):
            raise CorruptDataError(f"{self.path} must have the identity of a run, got {stored_id!r}.")
        return stored_id

    def entry(self, name: str, make: Callable[[Any], Any]) -> Any:
        """Return an entry of the description; raises `CorruptDataError` if `make` cannot convert it."""
        try:
            return make(self.content[name])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            message = f"{self.path} must have {name!r} as popsim writes it: {error!r}."
            raise CorruptDataError(message) from None

    def write(self, **entries: Any) -> "DescribedRun":
        """Write entries into the description, and return the run with them; its folder must be locked."""
        described = dataclasses.replace(self, content={**self.content, **entries})
        DESCRIPTION.write(self.path, described.content)
        return described


def check_resumable(path: Path, content: Mapping[str, Any]) -> None:
    """Check that the training of a `run.json` or `training.json` may be continued.

    **Raises:** `MismatchError` if it has a format that is only read.
    """
    if (version := content["format"]) != FORMAT:
        raise MismatchError(
            f"{path} must have format {FORMAT} to be resumed, got {version!r}, which is only read: train "
            "anew in another folder, or resume it with the popsim that began it."
        )
