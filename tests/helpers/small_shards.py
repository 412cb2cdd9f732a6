"""Growing arrays in shards of few rows, so that a short history has many files; and what they should hold."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from popsim.store import stored_array as chunk_shapes
from popsim.store.array_group import CommitRecord, open_arrays, remove_arrays
from popsim.store.growing_arrays import GrowingArrays

SHARD_ROWS, CHUNK_ROWS = 6, 2
ATTRIBUTES = {"terms": ["effort", "position"], "nested": {"a": [1, 2.5, None]}}


def use_small_shards(patch: Any) -> None:
    """Cut arrays into small pieces until the monkeypatch is undone."""
    patch.setattr(chunk_shapes, "SHARD_ROWS", SHARD_ROWS)
    patch.setattr(chunk_shapes, "CHUNK_ROWS", CHUNK_ROWS)


def losses(begin: int, end: int) -> dict:
    """Rows `begin` to `end` of the arrays along "batch"."""
    number = np.arange(begin, end)
    loss = np.random.default_rng(1).normal(size=(2000, 3, 2)).astype("f4")[begin:end]
    return {
        "batch": ((), number),
        "loss": (("member", "term"), loss),
        "learning rate": ((), np.where(number % 7 == 3, np.nan, 1.0 / (number + 1))),
        "frozen": (("member",), number[:, None] % 5 == np.arange(3)),
    }


def trainables(begin: int, end: int) -> dict:
    """Rows `begin` to `end` of the arrays along "trainables_batch"."""
    weights = np.random.default_rng(2).normal(size=(400, 3, 4, 5)).astype("f4")[begin:end]
    return {
        "trainables_batch": ((), np.arange(begin, end) * 5 - 1),
        "trainables.cell%2E.weight hh": (("member", "row", "column"), weights),
        "trainables.count": (("member",), weights[:, :, 0, 0].view("i4")),
    }


ROWS = {"batch": losses, "trainables_batch": trainables}


def expected(lengths: dict[str, int]) -> dict[str, np.ndarray]:
    """All arrays after that many rows."""
    arrays = {}
    for axis, length in lengths.items():
        arrays |= {name: array for name, (_, array) in ROWS[axis](0, length).items()}
    return arrays


def damage(path: Path, **options: Any) -> dict[str, ValueError]:
    """What is wrong with the committed rows, by file."""
    return dict(CommitRecord.read(path).damage(**options))


def assert_holds(path: Path, lengths: dict[str, int]) -> None:
    """Check names, types and every bit of what `path` holds, and that no file of it is damaged."""
    assert not damage(path)
    dataset = open_arrays(path)
    arrays = expected(lengths)
    assert set(dataset.variables) == set(arrays)
    for name, array in arrays.items():
        found = dataset[name].values
        assert found.dtype == array.dtype and found.shape == array.shape, name
        assert found.tobytes() == array.tobytes(), name


def write_small(path: Path, n_batches: int = 40) -> dict[str, int]:
    """A history with several commits, whose last shards are not full."""
    store = GrowingArrays.create(path, attributes=ATTRIBUTES)
    for begin in range(0, n_batches, 5):
        store.append("batch", losses(begin, begin + 5))
        store.append("trainables_batch", trainables(begin // 5, begin // 5 + 1))
        if begin % 10 == 0:
            store.commit()
    return store.commit()


def train(path: Path, checkpoint: Path, n_batches: int) -> None:
    """Append up to `n_batches` rows, three at a time, from the checkpoint on if there is one.

    The checkpoint has the lengths of a commit, and is written after it, as that of a training is.
    """
    if checkpoint.exists():
        lengths = json.loads(checkpoint.read_text())
        store = GrowingArrays.open(path)
        store.truncate(lengths)
    else:
        lengths = {}
        remove_arrays(path)
        store = GrowingArrays.create(path)
    for begin in range(lengths.get("batch", 0), n_batches, 3):
        store.append("batch", losses(begin, begin + 3))
        if begin % 6 == 0:
            store.append("trainables_batch", trainables(begin // 6, begin // 6 + 1))
        if begin % 9 == 6:
            written = checkpoint.with_name("checkpoint.partial")
            written.write_text(json.dumps(store.commit()))
            written.replace(checkpoint)
    store.commit()
