"""A folder of popsim, of a run or a sweep: which names in it are popsim's."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar, overload

from popsim._text_checks import as_word
from popsim.store.files import finished_name, is_of_system, make_folder, remove_left_over, unfinished_name
from popsim.store.identity import HOLDER, LOCK
from popsim.store.json_files import read_json

__all__ = ["FolderPart", "PlainFolder", "description_or_empty", "import_option"]


FolderType = TypeVar("FolderType", bound="PlainFolder")


@dataclasses.dataclass(frozen=True)
class FolderPart:
    """A file or a folder of popsim in a `PlainFolder`, by its name; as an attribute of that, its path."""

    name: str

    @overload
    def __get__(self, folder: None, kind: Any) -> "FolderPart": ...
    @overload
    def __get__(self, folder: "PlainFolder", kind: Any) -> Path: ...
    def __get__(self, folder: Any, kind: Any) -> Any:
        return self if folder is None else folder.path / self.name


@dataclasses.dataclass(frozen=True)
class PlainFolder:
    """A folder that popsim writes, of a run or a sweep, in which there may be files of others, too.

    A subclass has a `FolderPart` for each file and folder that is popsim's, among them `description`, the
    file that makes the folder popsim's, which is written first.

    - `path`: the folder.
    """

    path: Path

    description: ClassVar[FolderPart]

    def left_overs(self) -> list[Path]:
        """Return the unfinished files of a killed process."""
        attributes = (value for kind in type(self).__mro__ for value in vars(kind).values())
        names = {LOCK, HOLDER} | {part.name for part in attributes if isinstance(part, FolderPart)}
        paths = [*self.path.iterdir()] if self.path.is_dir() else []
        return [path for path in paths if finished_name(path.name) in names]

    def remove_left_overs(self) -> None:
        """Remove the unfinished files of a killed process."""
        for path in self.left_overs():
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

    In the description of run.json they are its `module`, and the `network_modules` that register networks;
    those of popsim need no option.
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
