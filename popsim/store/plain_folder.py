"""A folder of popsim: which names in it are popsim's, and the checks before it is read or written."""

import abc
import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from popsim.store.files import (
    check_plain_file,
    check_plain_folder,
    finished_name,
    is_of_system,
    remove_left_over,
    unfinished,
)
from popsim.store.identity import HOLDER, LOCK

__all__ = ["PlainFolder"]


FolderType = TypeVar("FolderType", bound="PlainFolder")


@dataclasses.dataclass(frozen=True)
class PlainFolder(abc.ABC):
    """A folder that popsim writes, of a run or a sweep, in which there may be files of others, too.

    A subclass says which files and folders are popsim's. They are what `check_plain` looks at, before
    anything is read, written or deleted: below the path that the user names nothing may be a link, a pipe or
    a device. The folder itself may be reached by a link.

    - `path`: the folder.
    """

    path: Path

    @property
    @abc.abstractmethod
    def description(self) -> Path:
        """The file that makes the folder popsim's. It is written first."""

    @abc.abstractmethod
    def parts(self) -> dict[Path, bool]:
        """Return the files and folders of popsim that may exist; whether each is a folder."""

    def check_folder(self, path: Path) -> None:
        """Check one of the folders: that all in it, at any depth, are plain files and folders.

        **Raises:** `CorruptDataError` naming what is not; `FileNotFoundError` if nothing is there.
        """
        check_plain_folder(path)

    def present(self) -> Iterator[tuple[Path, bool]]:
        """Yield popsim's files and folders, finished or not; whether each should be a folder."""
        parts = self.parts() | {self.path / LOCK: False, self.path / HOLDER: False}
        for path in self.path.iterdir() if self.path.is_dir() else ():
            finished_path = path.with_name(finished_name(path.name) or path.name)
            if finished_path in parts:
                yield path, parts[finished_path]

    def check_plain(self) -> None:
        """Check that no file of popsim is replaced by, or contains, a link, pipe or device.

        Following one, popsim would read, write or delete files elsewhere. The folder itself may be reached by
        a link, and other files in it are ignored.

        **Raises:** `CorruptDataError` naming the first that is found.
        """
        for path, is_folder in self.present():
            with contextlib.suppress(FileNotFoundError):  # another process may be writing the folder
                (self.check_folder if is_folder else check_plain_file)(path)

    def remove_left_overs(self) -> None:
        """Remove unfinished files of a killed process; call `check_plain` first."""
        for path, _ in [*self.present()]:
            remove_left_over(path)

    def foreign(self) -> str | None:
        """Return the first file of a folder without a description that is not left over from starting one."""
        names = sorted(os.listdir(self.path)) if self.path.is_dir() else []
        traces = [name for name in names if finished_name(name) in (HOLDER, self.description.name)]
        ignored = (LOCK, HOLDER, *traces)
        return next((name for name in names if name not in ignored and not is_of_system(name)), None)

    @classmethod
    def make(cls: type[FolderType], path: str | Path) -> FolderType:
        """Create the folder if missing; raise `ValueError` if it cannot be written."""
        folder = cls(Path(path))
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            probe = unfinished(folder.description)  # a name that is passed over if a kill leaves it
            probe.touch(exist_ok=False)
            probe.unlink()
        except OSError as error:
            raise ValueError(f"`out` must be a folder that can be written, got {path}: {error}") from None
        return folder
