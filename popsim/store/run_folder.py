"""The folders of runs and sweeps: their layout, and the checks before they are read or written."""

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from popsim._shared.text_checks import as_path, as_word
from popsim.store import files
from popsim.store.array_group import remove_arrays
from popsim.store.checkpoints import Checkpoints
from popsim.store.identity import HOLDER, LOCK, RUN_ID, check_run_id, new_run_id
from popsim.store.json_files import read_json, read_sealed_json, write_sealed_json

__all__ = ["RunFolder"]

FolderType = TypeVar("FolderType", bound="PlainFolder")


@dataclasses.dataclass(frozen=True)
class FolderPart:
    """The name of a file or a folder in a `PlainFolder`; as an attribute of one, its path."""

    name: str

    def __get__(self, folder: Any, kind: Any) -> Path:
        return Path(getattr(folder, "path", "")) / self.name


@dataclasses.dataclass(frozen=True)
class PlainFolder:
    """A folder of a run or a sweep, maybe with files of others; its `description` is written first."""

    path: Path

    description: ClassVar[FolderPart]

    def left_overs(self) -> list[Path]:
        """Return the unfinished files of a killed process, also of figures."""
        attributes = (value for kind in type(self).__mro__ for value in vars(kind).values())
        names = {LOCK, HOLDER} | {part.name for part in attributes if isinstance(part, FolderPart)}
        own = [path for path in self.path.glob("*.partial") if files.finished_name(path.name) in names]
        return own + [path for path in self.path.glob("figures/*") if files.finished_name(path.name)]

    def remove_left_overs(self) -> None:
        """Remove the unfinished files of a killed process."""
        for path in self.left_overs():
            files.remove_left_over(path)

    def foreign_file(self) -> str | None:
        """Return the first file of a folder without a description that is not left over from starting one."""
        names = sorted(os.listdir(self.path)) if self.path.is_dir() else []
        traces = [name for name in names if files.finished_name(name) in (HOLDER, self.description.name)]
        ignored = (LOCK, HOLDER, *traces)
        return next((name for name in names if name not in ignored and not files.is_of_system(name)), None)

    def command(self, verb: str, suffix: str = "") -> str:
        """Return a command on the folder or on a path in it, such as "popsim resume runs/one"."""
        content = description_or_empty(self.description) if self.description.is_file() else {}
        return f"popsim {import_option(content)}{verb} {as_word(Path(f'{self.path}{suffix}'))}"

    @classmethod
    def make(cls: type[FolderType], path: str | Path) -> FolderType:
        """Create the folder if missing; raise `ValueError` if it cannot be written."""
        folder = cls(Path(path))
        try:
            files.make_folder(folder.path, parents=True)
            # A name of an unfinished file: if the process is killed here, it is taken for a left-over.
            probe = files.unfinished_name(folder.description)
            probe.touch(exist_ok=False)
            probe.unlink()
        except OSError as error:
            raise ValueError(f"`out` must be a folder that can be written, got {path}: {error}") from None
        return folder


def import_option(description: Mapping[str, Any]) -> str:
    """Return the options that import modules of an experiment from outside popsim: `--import MODULE `."""
    modules = [description.get("module") or "popsim.", *description.get("network_modules", ())]
    named = dict.fromkeys(module for module in modules if not module.startswith("popsim."))
    is_found = {name: name != "__main__" and all(map(str.isidentifier, name.split("."))) for name in named}
    return "".join(f"--import {name if is_found[name] else 'MODULE'} " for name in named)


def description_or_empty(path: Path) -> dict[str, Any]:
    """Read a description; return an empty one if it is not of popsim."""
    try:
        described = read_json(path)
    except ValueError:
        return {}
    return described if isinstance(described, dict) else {}


@dataclasses.dataclass(frozen=True)
class RunFolder(PlainFolder):
    """The layout of a run on disk.

    - `run.json`: format and popsim version, identity of the run, experiment and settings; written first;
    - `training.json`: format and popsim version, identity, and the list of what must exist; written when the
        training begins and after each checkpoint;
    - `log.jsonl`: one line per log point;
    - `history.zarr/`: losses, learning rate, trainables and trials over training batches;
    - `checkpoints/`: the last states of the training, each in a file named by its number of batches;
    - `summary.json`: the metrics, in SI units; written when the run is finished;
    - `figures/`, `tensorboard/`: PNG and PDF; events for TensorBoard, if they were asked for;
    - `run.lock`: held by the process that writes the folder.

    A training without an experiment has no `run.json`, `summary.json`, `figures/` and `tensorboard/`.
    """

    description = FolderPart("run.json")
    training = FolderPart("training.json")
    log = FolderPart("log.jsonl")
    history = FolderPart("history.zarr")
    checkpoints = FolderPart("checkpoints")
    summary = FolderPart("summary.json")
    figures = FolderPart("figures")
    tensorboard = FolderPart("tensorboard")

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

    @classmethod
    def create(cls, path: str | Path, *, overwrite: bool = False) -> "RunFolder":
        """Create the folder of a new run; with `overwrite` an existing one is deleted.

        Its `run.json` and its figures stay until new ones replace them; files not listed above stay.
        """
        cls.check_free(path, overwrite=overwrite)
        folder = cls.make(Path(path))
        if overwrite:
            folder._delete_run()
        return folder

    def _delete_run(self) -> None:
        # `run.json` stays: without it nobody would know whose folder this is.
        self.remove_left_overs()
        Checkpoints(self.checkpoints).remove()
        remove_arrays(self.history)
        events = [] if self.tensorboard.is_symlink() else self.tensorboard.glob("events.out.tfevents.*")
        for file in (self.summary, self.log, self.training, *events):
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # missing, or with files of others
            self.tensorboard.rmdir()

    @classmethod
    def check_free(cls, path: str | Path, *, overwrite: bool) -> None:
        """Check that a new run may be written into a folder; arguments and errors as for `create`."""
        folder = cls(as_path("out", path))
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
        """Check that a training may be written into the folder, or continued with `restore`."""
        if self.training.exists():
            content = read_sealed_json(self.training)
            saved = content.get("checkpoints") or Checkpoints(self.checkpoints).steps()
            if not restore and (saved or self.description.exists()):
                raise ValueError(
                    f"`chkpt_dir` must not hold a training already, got {self.path}: "
                    "restore_checkpoint=True continues it."
                )
        elif present := self.existing_training_files():
            raise ValueError(
                f"`chkpt_dir` must not hold {', '.join(present)} of something else, got {self.path}: "
                "it has no training.json."
            )

    @classmethod
    def open(cls, path: str | Path) -> "DescribedRun":
        """Open the folder of a run, finished or not, and read `run.json`; errors as `read_sealed_json`."""
        folder = cls(as_path("path", path))
        if not folder.description.is_file():
            # Without `run.json`, only this entry tells a run that lost it from the training of a script.
            if folder.training.is_file() and description_or_empty(folder.training).get("of_experiment"):
                raise files.missing_file(folder.description)
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
        """Open the folder of a training, with or without an experiment; errors as `open`."""
        folder = cls(as_path("path", path))
        if not folder.training.is_file():
            raise ValueError(f"`path` must be the folder of a training, got {path}: it has no training.json.")
        return DescribedRun.read(folder)


@dataclasses.dataclass(frozen=True)
class DescribedRun:
    """A run, or a training without an experiment, with its description, which is read and checked once."""

    folder: RunFolder
    path: Path  # `run.json`, or without an experiment `training.json`
    content: Mapping[str, Any]

    @classmethod
    def read(cls, folder: RunFolder) -> "DescribedRun":
        """Read the description of a run or a training; errors as `read_sealed_json`."""
        # `run.json` is written before `training.json`, and is there in every run of an experiment.
        path = folder.description if folder.description.is_file() else folder.training
        return cls(folder, path, read_sealed_json(path))

    @classmethod
    def create(cls, folder: RunFolder, entries: Mapping[str, Any]) -> "DescribedRun":
        """Write the `run.json` of a new run, with an identity; its folder must be locked."""
        content = {"format": files.FORMAT, RUN_ID: new_run_id(), **entries}
        write_sealed_json(folder.description, content)
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

    @property
    def run_id(self) -> str:
        """The identity of the run."""
        return self.content[RUN_ID]

    def write(self, **entries: Any) -> "DescribedRun":
        """Write entries into the description, and return the run with them; its folder must be locked."""
        described = dataclasses.replace(self, content={**self.content, **entries})
        write_sealed_json(self.path, described.content)
        return described
