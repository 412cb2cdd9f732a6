"""What may become of the folder of a run: not to be written, gone, full of left-overs, or somebody else's."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

NOBODY = 65534

LEFT_FILES = (
    "run.json.0123abcd.partial",
    "training.json.0123abcd.partial",
    "log.jsonl.0123abcd.partial",
    "summary.json.0123abcd.partial",
    "run.lock",
    "run.lock.json",
    "run.lock.json.0123abcd.partial",
    "history.zarr.0123abcd.partial/loss/c.0",
    "history.zarr/zarr.json.0123abcd.partial",
    "history.zarr/loss/c.0.0.0.0123abcd.partial",
    "history.zarr/loss/zarr.json.0123abcd.partial",
    "checkpoints/000000007.safetensors.0123abcd.partial",
    "checkpoints/000000024.safetensors.0123abcd.partial",
    "figures/loss.png.0123abcd.partial",
)


@contextlib.contextmanager
def open_to_all() -> Iterator[Path]:
    """A temporary folder that every user may enter."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


def copies(source: Path, folder: Path, what: str, n: int) -> list[str]:
    """Copies of a folder."""
    paths = [str(folder / f"{what} {i}") for i in range(n)]
    for path in paths:
        shutil.copytree(source, path)
    return paths


def forbid_writing(path: str) -> None:
    """Take the permission to write a folder and all below it from everybody."""
    for below, _, files in os.walk(path):
        os.chmod(below, 0o555)
        for file in files:
            os.chmod(Path(below, file), 0o444)


def leave(path: str, name: str) -> None:
    """Put a left-over file into a folder."""
    file = Path(path, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b'{"half": ')
