"""What a training or a run holds on disk, as SHA-256: to compare one with another bit for bit."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from popsim.store import Checkpoints, RunFolder, open_arrays, read_sealed_json, stream_json_lines
from popsim.store.array_file import ArrayFile
from popsim.store.identity import RUN_ID
from popsim.sweeps import open_sweep, verify_sweep


def training_digests(path: Path) -> dict[str, Any]:
    """The step of the last checkpoint, digests of its arrays and of the history, and the log's batches."""
    folder = RunFolder(path)
    checkpoints = Checkpoints(folder.checkpoints)
    step = checkpoints.steps()[-1]
    return {
        "step": step,
        "state": digest_of(checkpoint_arrays(checkpoints, step)),
        "history": digest_of(history_arrays(folder.history)),
        "log": [line["batch"] for line in stream_json_lines(folder.log)],
    }


def run_digests(path: Path) -> dict[str, Any]:
    """Those of its training; what `run.json` and `summary.json` say, and the figures."""
    folder = RunFolder(path)
    figures = {file.name: _sha(file.read_bytes()) for file in sorted(folder.figures.glob("*.png"))}
    described = {file.name: _described(file) for file in (folder.description, folder.summary)}
    return {**training_digests(path), "figures": figures, **described}


def sweep_digests(path: Path) -> dict[str, Any]:
    """Those of its cells, the results that are known of them, and what is wrong with its files."""
    opened = open_sweep(path)
    results = opened.summary().drop(columns="seconds", errors="ignore").to_csv()
    cells = {str(cell): run_digests(opened.folder.cell(cell).path) for cell in range(opened.sweep.n_cells)}
    return {**cells, "results": results, "problems": verify_sweep(path)}


def _described(file: Path) -> dict[str, Any]:
    """What a file says, without what is another thing in each run and sweep: its identity."""
    return {name: value for name, value in read_sealed_json(file).items() if name not in (RUN_ID, "part_of")}


def checkpoint_arrays(checkpoints: Checkpoints, step: int) -> dict[str, np.ndarray]:
    """All arrays of a checkpoint, whatever they are; of typed keys, their data."""
    with ArrayFile.open(checkpoints.file(step), "a checkpoint") as file:
        return file.arrays()


def history_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a history, read whole, and its attributes."""
    dataset = open_arrays(path)
    arrays = {f"{name} {array.dims}": array.values for name, array in dataset.variables.items()}
    attributes = json.dumps(dict(dataset.attrs), sort_keys=True)
    return {**arrays, "attributes": np.frombuffer(attributes.encode(), np.uint8)}


def digest_of(arrays: dict[str, np.ndarray]) -> str:
    """The SHA-256 of names, dtypes, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
