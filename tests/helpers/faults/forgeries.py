"""Runs as somebody might forge them who wants popsim to execute something."""

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from popsim.store import read_sealed_json, write_sealed_json

Forge = Callable[[Path, Path], None]


class Execute:
    """When unpickled, makes a folder."""

    def __init__(self, path: Path):
        self._path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self._path),)


def described(**changes: Any) -> Forge:
    """A description that says something else, under a checksum that is right."""

    def forge(run: Path, canary: Path) -> None:
        write_sealed_json(run / "run.json", read_sealed_json(run / "run.json") | changes)
        (run / "forged settings").touch()

    return forge


def settings(**changes: Any) -> Forge:
    """Other settings, under a checksum that is right."""

    def forge(run: Path, canary: Path) -> None:
        described(settings=read_sealed_json(run / "run.json")["settings"] | changes)(run, canary)

    return forge


def pickled(pattern: str) -> Forge:
    """Pickles in place of files."""

    def forge(run: Path, canary: Path) -> None:
        files = [path for path in run.glob(pattern) if path.is_file()]
        assert files
        for path in files:
            path.write_bytes(pickle.dumps(Execute(canary)))

    return forge


def beside(run: Path, canary: Path) -> None:
    """Pickled arrays of every kind in folders where arrays lie."""
    for folder in (run, run / "history.zarr", run / "history.zarr" / "loss", run / "checkpoints"):
        np.save(folder / "loss.npy", np.array([Execute(canary)]), allow_pickle=True)
        (folder / "loss.pkl").write_bytes(pickle.dumps(Execute(canary)))
        (folder / ".zarray").write_text('{"zarr_format": 2, "filters": [{"id": "pickle"}], "dtype": "|O"}')


FORGERIES: dict[str, Forge] = {
    "a setting that is none": settings(__class__="os.system"),
    "a module as experiment": described(experiment="os.system", settings={}),
    "a path as experiment": described(experiment="../../outside", settings=[]),
    "a recording that is none": described(recording={"__init__": "os.system"}),
    "pickles: run.json": pickled("run.json"),
    "pickles: log.jsonl": pickled("log.jsonl"),
    "pickles: history, descriptions": pickled("history.zarr/**/zarr.json"),
    "pickles: history, arrays": pickled("history.zarr/*/c.*"),
    "pickles: checkpoints": pickled("checkpoints/*"),
    "pickles beside the arrays": beside,
}


IGNORED = ("pickles: log.jsonl", "pickles beside the arrays")  # a log whose one line is torn has no lines


def forge_all(sound: Path, folder: Path) -> dict[str, tuple[Path, Path]]:
    """Forged copies of a run; by name the copy, and what exists if something in it was executed."""
    forged = {}
    for number, (name, forge) in enumerate(FORGERIES.items()):
        run, canary = folder / f"forged {number}", folder / f"executed {number}"
        shutil.copytree(sound, run)
        forge(run, canary)
        forged[name] = run, canary
    return forged


def complaint(name: str, found: dict[str, Any], canary: Path) -> str:
    """What is wrong with how a forged run was met; empty if it was refused, or its pickles were ignored."""
    error = found.get("error")
    kinds = ("ValueError", "CorruptDataError", "MismatchError")
    refused = error.startswith(kinds) if error else name in IGNORED
    return "" if refused and not canary.exists() else f"{name}: {found}"
