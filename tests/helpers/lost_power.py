"""What would be on a disk after lost power: the names and the bytes that were flushed to it."""

import os
from pathlib import Path


class FlushedDisk:
    """What was flushed below a folder, from when it begins on; the folder itself is taken as there.

    **Arguments:**

    - `folder`: the folder; it is empty.
    - `monkeypatch`: of a test, after which nothing is noted.
    - `needs`: by the ending of a path, the function from an unfinished file and this path to the paths of all
        that must be flushed before the file gets it.
    - `ignored`: names that need not outlive lost power.
    """

    def __init__(self, folder, monkeypatch, *, needs, ignored=()):
        self.folder, self._ignored = Path(folder), ignored
        self._names: dict[int, dict[str, int]] = {}  # of a folder, by its inode: the inode of each name
        self._bytes: dict[int, bytes] = {}
        self.renamed: list[str] = []
        self.too_early: dict[str, list[str]] = {}
        fsync, replace, rename = os.fsync, os.replace, os.rename

        def note_flush(descriptor):
            fsync(descriptor)
            path, status = Path(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor)
            if path.is_dir():
                self._names[status.st_ino] = _names_in(path)
            else:
                self._bytes[status.st_ino] = path.read_bytes()

        def note_rename(rename, source, target, **options):
            for ending, needed in needs.items():
                if str(target).endswith(ending):
                    lost = [path for path in needed(Path(source), Path(target)) if self._is_lost(path)]
                    self.too_early |= {str(target): lost} if lost else {}
            rename(source, target, **options)
            self.renamed.append(str(target))

        monkeypatch.setattr(os, "fsync", note_flush)
        for name, function in (("replace", replace), ("rename", rename)):
            monkeypatch.setattr(
                os, name, lambda *paths, f=function, **options: note_rename(f, *paths, **options)
            )

    def lost(self):
        """Return the files and folders that lost power would take away, or change."""
        return [
            str(path) for path in self.folder.rglob("*") if not self._may_go(path) and self._is_lost(path)
        ]

    def _is_lost(self, path):
        return not (path.exists() and self._has_name(path) and self._has_bytes(path))

    def _may_go(self, path):
        return path.name in self._ignored or ".partial" in str(path)

    def _has_name(self, path):
        return self._names.get(path.parent.stat().st_ino, {}).get(path.name) == path.stat().st_ino

    def _has_bytes(self, path):
        return path.is_dir() or self._bytes.get(path.stat().st_ino) == path.read_bytes()


def _names_in(folder):
    with os.scandir(folder) as entries:
        return {entry.name: entry.inode() for entry in entries}
