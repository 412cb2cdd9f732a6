"""A folder of popsim: which names in it are popsim's, and the checks before it is read or written."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar, overload

from popsim._text_checks import as_word
from popsim.store.files import (
    check_plain_file,
    check_plain_folder,
    finished_name,
    is_of_system,
    make_folder,
    remove_left_over,
    unfinished_name,
)
from popsim.store.identity import HOLDER, LOCK
from popsim.store.json_files import read_json

__all__ = ["FolderPart", "PlainFolder", "description_or_empty", "import_option"]


FolderType = TypeVar("FolderType", bound="PlainFolder")


@dataclasses.dataclass(frozen=True)
class FolderPart:
    """A file or a folder of popsim in a `PlainFolder`, of which it is an attribute: its path.

    - `name`: its name.
    - `is_folder`: whether it is a folder.
    """

    name: str
    is_folder: bool = False

    @overload
    def __get__(self, folder: None, kind: Any) -> "FolderPart": ...
    @overload
    def __get__(self, folder: "PlainFolder", kind: Any) -> Path: ...
    def __get__(self, folder: Any, kind: Any) -> Any:
        return self if folder is None else folder.path / self.name


@functools.cache
def _parts_of(kind: type) -> tuple[FolderPart, ...]:
    """Return the parts of a kind of folder, also those that it inherits."""
    attributes = {name: value for each in reversed(kind.__mro__) for name, value in vars(each).items()}
    return tuple(value for value in attributes.values() if isinstance(value, FolderPart))


@dataclasses.dataclass(frozen=True)
class PlainFolder:
    """A folder that popsim writes, of a run or a sweep, in which there may be files of others, too.

    A subclass has a `FolderPart` for each file and folder that is popsim's, among them `description`, the
    file that makes the folder popsim's, which is written first. They are what `check_plain` looks at, before
    anything is read, written or deleted: below the path that the user names nothing may be a link, a pipe or
    a device. The folder itself may be reached by a link.

    - `path`: the folder.
    """

    path: Path

    description: ClassVar[FolderPart]

    def possible_paths(self) -> dict[Path, bool]:
        """Return the files and folders of popsim that may exist; whether each is a folder."""
        return {self.path / part.name: part.is_folder for part in _parts_of(type(self))}

    def check_folder(self, path: Path) -> None:
        """Check one of the folders: that all in it, at any depth, are plain files and folders.

        **Raises:** `CorruptDataError` naming what is not; `FileNotFoundError` if nothing is there.
        """
        check_plain_folder(path)

    def existing_paths(self) -> Iterator[tuple[Path, bool]]:
        """Yield popsim's files and folders, finished or not; whether each should be a folder."""
        parts = self.possible_paths() | {self.path / LOCK: False, self.path / HOLDER: False}
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
        for path, is_folder in self.existing_paths():
            with contextlib.suppress(FileNotFoundError):  # another process may be writing the folder
                (self.check_folder if is_folder else check_plain_file)(path)

    def remove_left_overs(self) -> None:
        """Remove unfinished files of a killed process; call `check_plain` first."""
        for path, _ in [*self.existing_paths()]:
            remove_left_over(path)

    def foreign_file(self) -> str | None:
        """Return the first file of a folder without a description that is not left over from starting one."""
        names = sorted(os.listdir(self.path)) if self.path.is_dir() else []
        traces = [name for name in names if finished_name(name) in (HOLDER, self.description.name)]
        ignored = (LOCK, HOLDER, *traces)
        return next((name for name in names if name not in ignored and not is_of_system(name)), None)

    def command(self, verb: str, suffix: str = "") -> str:
        """Return a command on the folder or on a path in it, such as "popsim resume runs/one".

        It imports the module of an experiment from outside popsim, which the description names.
        """
        content = description_or_empty(self.description) if self.description.is_file() else {}
        return f"popsim {import_option(content)}{verb} {as_word(Path(f'{self.path}{suffix}'))}"

    @classmethod
    def make(cls: type[FolderType], path: str | Path) -> FolderType:
        """Create the folder if missing; raise `ValueError` if it cannot be written."""
        folder = cls(Path(path))
        try:
            make_folder(folder.path, parents=True)
            probe = unfinished_name(folder.description)  # a name that is passed over if a kill leaves it
            probe.touch(exist_ok=False)
            probe.unlink()
        except OSError as error:
            raise ValueError(f"`out` must be a folder that can be written, got {path}: {error}") from None
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


def description_or_empty(path: Path) -> dict[str, Any]:
    """Read a description; return an empty one if it is not of popsim."""
    try:
        described = read_json(path)
    except ValueError:
        return {}
    return described if isinstance(described, dict) else {}
