"""Indexes of a sweep and notes of its cells as somebody might forge them, under checksums that are right.

What they say is in the cells as well, so a sweep with such a file must look as it did before.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from popsim.store import read_sealed_json, write_sealed_json
from popsim.store.array_file import describe, open_array_file, read_array, write_array_file
from popsim.sweeps import Sweep, make_sweep, open_sweep, run_sweep

Arrays = dict[str, np.ndarray]
Forge = Callable[[Path], None]


def make_small_sweep(path: Path) -> None:
    """Train a sweep of two cells with networks of different sizes."""
    from swept_runs import Swept

    make_sweep(Sweep(Swept(n_batches=6, log_step=3), {"n_units": (3, 4)}, range(2)), path)
    run_sweep(path)


def shown(path: Path) -> dict[str, Any]:
    """Return what is shown of the small sweep: a table, and digests of losses and weights."""
    opened = open_sweep(path)
    summary = opened.summary()
    arrays = {
        "losses": opened.total_loss.values,
        "weights": opened.where(n_units=3).history["trainables.network.bias"].values,
    }
    return {
        "states": opened.counts,
        "problems": [opened.problem_of(number) for number in range(opened.sweep.n_cells)],
        "summary": summary.to_csv(),
        **{name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in arrays.items()},
    }


DEEP = "[" * 100_000 + "]" * 100_000
RANGES = {
    "10**8 rows": [[0, 10**8, 1]],
    "10**15 rows": [[0, 10**15, 1]],
    "10**30 rows": [[0, 10**30, 1]],
    "rows backwards": [[7, 0, 1]],
    "rows before the first": [[-5, 7, 1]],
    "the same rows twice": [[0, 7, 1], [0, 7, 1]],
    "rows in text": "0:8",
    "text for a row": [["0", "7", "1"]],
    "half a row": [[0, 7.5, 1]],
    "no ranges": [[]],
    "rows that are null": None,
}
FORMS = {
    "10**9 units": lambda form: [form[0], [*form[1][:-1], 10**9], form[2]],
    "10**30 units": lambda form: [form[0], [*form[1][:-1], 10**30], form[2]],
    "fewer than no units": lambda form: [form[0], [*form[1][:-1], -1], form[2]],
    "one axis too few": lambda form: [form[0][:-1], form[1], form[2]],
    "text for a length": lambda form: [form[0], list(map(str, form[1])), form[2]],
    "objects": lambda form: [*form[:2], "object"],
    "dates": lambda form: [*form[:2], "datetime64[ns]"],
    "half the digits": lambda form: [*form[:2], "float16"],
    "no form": lambda form: 5,
    "more members": lambda form: [form[0], [form[1][0], 9, *form[1][2:]], form[2]],
}
VALUES = {
    "null": None,
    "text": "9",
    "true": True,
    "negative": -1,
    "huge": 10**30,
    "a fraction": 1.5,
    "a list": [1],
    "a dict": {"1": 1},
}


def index_with(change: Callable[[Arrays, dict[str, Any]], None]) -> Forge:
    """An index with other arrays or details."""

    def forge(sweep: Path) -> None:
        path = sweep / "index.safetensors"
        with open_array_file(path, 1, "an index") as (file, content):
            arrays = {name: read_array(path, file, name, form) for name, form in content["arrays"].items()}
        change(arrays, content["details"])
        write_array_file(path, arrays, {name: describe(array) for name, array in arrays.items()}, content)

    return forge


def index_is(content: bytes) -> Forge:
    """An index that is no array file of popsim."""
    return lambda sweep: (sweep / "index.safetensors").write_bytes(content) and None


def note_with(change: Callable[[dict[str, Any]], None]) -> Forge:
    """A note of the first cell with other values, which is read as there is no index."""

    def forge(sweep: Path) -> None:
        (sweep / "index.safetensors").unlink()
        path = sweep / "cells" / "000000" / "cell.json"
        described = read_sealed_json(path)
        change(described)
        write_sealed_json(path, described)

    return forge


def note_is(content: bytes) -> Forge:
    """A note of the first cell that is no note."""

    def forge(sweep: Path) -> None:
        (sweep / "index.safetensors").unlink()
        (sweep / "cells" / "000000" / "cell.json").write_bytes(content)

    return forge


def _column(name: str, values: Any) -> Callable[[Arrays, dict[str, Any]], None]:
    """Replace a column, or all its values."""

    def change(arrays: Arrays, details: dict[str, Any]) -> None:
        is_whole = isinstance(values, np.ndarray)
        arrays[name] = values if is_whole else np.full_like(arrays[name], values)

    return change


def _detail(name: str, value: Any) -> Callable[[Arrays, dict[str, Any]], None]:
    return lambda arrays, details: details.update({name: value})


def _layouts(change: Callable[[dict[str, Any]], None]) -> Callable[[Arrays, dict[str, Any]], None]:
    """Change each layout of an index."""

    def changed(text: str) -> str:
        layout = json.loads(text)
        change(layout)
        return json.dumps(layout)

    return lambda arrays, details: details.update(layouts=[changed(text) for text in details["layouts"]])


def _layout(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """Change the layout of a note."""

    def changed(note: dict[str, Any]) -> None:
        layout = json.loads(note["layout"])
        change(layout)
        note["layout"] = json.dumps(layout)

    return changed


def _rows(ranges: Any) -> Callable[[dict[str, Any]], None]:
    """Change the rows of a layout, and the lengths of the arrays with it where that can be."""

    def change(layout: dict[str, Any]) -> None:
        for axis in layout["rows"]:
            layout["rows"][axis] = ranges
        if isinstance(ranges, list) and ranges and isinstance(ranges[0], list) and len(ranges[0]) == 3:
            first, last, _ = ranges[0]
            if isinstance(first, int) and isinstance(last, int):
                for form in layout["arrays"].values():
                    form[1][0] = last - first + 1

    return change


def _forms(change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    return lambda layout: layout["arrays"].update({n: change(form) for n, form in layout["arrays"].items()})


def _losses(value: float) -> Callable[[Arrays, dict[str, Any]], None]:
    """Other results for all members."""

    def change(arrays: Arrays, details: dict[str, Any]) -> None:
        for name in arrays:
            if name.endswith("_loss") or name.startswith("result."):
                arrays[name] = np.full_like(arrays[name], value)

    return change


def _without(*names: str) -> Callable[[Arrays, dict[str, Any]], None]:
    return lambda arrays, details: [arrays.pop(name) for name in names] and None


def _sparse(sweep: Path) -> None:
    """An index of 40 GB, of which nothing is on the disk, with a header that fits it."""
    n_numbers = 5 * 10**9
    header = {"state": {"dtype": "I64", "shape": [n_numbers], "data_offsets": [0, 8 * n_numbers]}}
    with (sweep / "index.safetensors").open("r+b") as file:
        n_bytes = int.from_bytes(file.read(8), "little")
        header["__metadata__"] = json.loads(file.read(n_bytes))["__metadata__"]
        text = json.dumps(header).encode()
        file.seek(0)
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + 8 * n_numbers)


def _fifo(sweep: Path) -> None:
    (sweep / "index.safetensors").unlink()
    os.mkfifo(sweep / "index.safetensors")


def _folder(sweep: Path) -> None:
    (sweep / "index.safetensors").unlink()
    (sweep / "index.safetensors").mkdir()


def _endless(sweep: Path) -> None:
    (sweep / "index.safetensors").unlink()
    (sweep / "index.safetensors").symlink_to("/dev/zero")


def index_forgeries() -> Iterator[tuple[str, Forge]]:
    """Forged indexes by name."""
    for state in range(-1, 5):
        yield f"state {state}", index_with(_column("state", state))
    for name, values in {
        "n_batches": (-1, 99, 2**62),
        "seconds": (np.nan, np.inf, -1.0, 1e300, 5.0),
        "layout": (-5, -1, 99),
        "validation_loss": (1e-9, np.nan, np.inf),
        "training_loss": (1e-9, np.nan),
        "frozen_from": (2.5, 99.0, -7.0, np.inf, 3.0),
        "stopped_from": (0.5, 1e18),
        "result.tau (ms)": (1e-9, np.nan),
    }.items():
        for value in values:
            yield f"{name} {value}", index_with(_column(name, value))
    for name in ("state", "stamp", "n_batches", "seconds", "layout", "validation_loss"):
        yield f"{name} of other type", index_with(_column(name, np.zeros(2, np.float16)))
        yield f"{name} of no axis", index_with(_column(name, np.zeros((), np.int64)))
        yield f"{name} of many", index_with(_column(name, np.zeros(10**5, np.int64)))
        yield f"no {name}", index_with(_without(name))
    yield "no results", index_with(_without("validation_loss", "training_loss"))
    yield "forged results", index_with(_losses(1e-12))
    yield (
        "2,000 results",
        index_with(lambda a, d: a.update({f"result.{n}": np.zeros(4) for n in range(2000)})),
    )
    yield "a result of long name", index_with(lambda a, d: a.update({"result." + "x" * 5000: np.zeros(4)}))
    yield "an unknown result", index_with(lambda a, d: a.update({"result.unknown": np.ones(4)}))
    for name, ranges in RANGES.items():
        yield name, index_with(_layouts(_rows(ranges)))
    for name, change in FORMS.items():
        yield name, index_with(_layouts(_forms(change)))
    yield "other terms", index_with(_layouts(lambda layout: layout.update(terms=["x"] * 2)))
    yield "a term that is a number", index_with(_layouts(lambda layout: layout.update(terms=[1])))
    yield "no arrays", index_with(_layouts(lambda layout: layout.update(arrays={})))
    yield (
        "one array more",
        index_with(_layouts(lambda layout: layout["arrays"].update(more=layout["arrays"]["loss"]))),
    )
    yield (
        "an array outside",
        index_with(_layouts(lambda layout: layout["arrays"].update({"../x": layout["arrays"]["loss"]}))),
    )
    for name in ("layouts", "problems", "sweep_id"):
        for what, value in VALUES.items():
            yield f"{name} that are {what}", index_with(_detail(name, value))
    for what, value in VALUES.items():
        yield f"a layout that is {what}", index_with(_detail("layouts", [value]))
        yield f"a problem that is {what}", index_with(_detail("problems", {"0": value}))
    yield "a layout of depth", index_with(_detail("layouts", [DEEP]))
    yield "a layout of a MB", index_with(_detail("layouts", ["x" * 2**20]))
    yield "a problem of a MB", index_with(_detail("problems", {"0": "x" * 2**20}))
    yield "a problem of no cell", index_with(_detail("problems", {"99": "x"}))
    yield "a problem of text", index_with(_detail("problems", {"x": "x"}))
    yield "no bytes", index_is(b"")
    yield "random bytes", index_is(np.random.default_rng(0).bytes(5000))
    yield "a header of 2**60 bytes", index_is((2**60).to_bytes(8, "little") + b"{}")
    yield "a header that is a list", index_is((2).to_bytes(8, "little") + b"[]")
    yield "a header of depth", index_is(len(DEEP).to_bytes(8, "little") + DEEP.encode())
    yield "40 GB", _sparse
    yield "a pipe", _fifo
    yield "a folder", _folder
    yield "an endless device", _endless


REFUSED = ("index: a pipe", "index: a folder", "index: an endless device")
"""What is refused by name, as in any place of a folder of popsim."""


def note_forgeries() -> Iterator[tuple[str, Forge]]:
    """Forged notes of a cell by name."""
    for name in ("sweep", "cell", "summary", "n_batches", "seconds", "members", "layout"):
        for what, value in VALUES.items():
            yield (
                f"{name}: {what}",
                note_with(lambda note, name=name, value=value: note.update({name: value})),
            )
        yield f"{name}: none", note_with(lambda note, name=name: note.pop(name) and None)
    for name in ("validation_loss", "training_loss", "frozen_from", "stopped_from", "result.tau (ms)"):
        for what, value in {**VALUES, "1e-9": 1e-9}.items():
            yield (
                f"{name} that is {what}",
                note_with(
                    lambda note, name=name, value=value: note["members"].update(
                        {name: [value] * len(note["members"][name])}
                    )
                ),
            )
        yield (
            f"{name} of 10**5 members",
            note_with(lambda note, name=name: note["members"].update({name: [0.5] * 10**5})),
        )
    yield (
        "2,000 results",
        note_with(lambda note: note["members"].update({f"result.{n}": [0.5, 0.5] for n in range(2000)})),
    )
    yield "members that are numbers", note_with(lambda note: note.update(members={"validation_loss": 0.5}))
    for name, ranges in RANGES.items():
        yield name, note_with(_layout(_rows(ranges)))
    for name, change in FORMS.items():
        yield name, note_with(_layout(_forms(change)))
    yield "a layout of depth", note_with(lambda note: note.update(layout=DEEP))
    yield "a layout without rows", note_with(_layout(lambda layout: layout.pop("rows") and None))
    yield "other terms", note_with(_layout(lambda layout: layout.update(terms=["x"] * 2)))
    yield "no bytes", note_is(b"")
    yield "no JSON", note_is(b"{")
    yield "depth", note_is(DEEP.encode())
    yield "a list", note_is(b"[]")
    yield "many lists", note_is(b"[" + b"[]," * 2_700_000 + b"[]]")
    yield "many digits", note_is(b'{"n_batches": ' + b"9" * 10**6 + b"}")


def forgeries() -> dict[str, Forge]:
    """All forgeries by name."""
    return {
        **{f"index: {name}": forge for name, forge in index_forgeries()},
        **{f"note: {name}": forge for name, forge in note_forgeries()},
    }
