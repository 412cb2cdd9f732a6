"""Files of a sweep that a bad copy put in the wrong place: those that its cells offer one another.

Two populations of two cells have selected before two batches, and cell 1 is lost: it is trained again, and
reads what cell 0 and it itself had offered.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from popsim.store import Checkpoints

POPULATIONS = ("000000", "000002")
LOST, FINISHED = "000001", "000000"
EARLY, LATE = "000000003.safetensors", "000000006.safetensors"
KINDS = ("scores", "members")

Mix = Callable[[Path, Path, Path], None]
"""Changes the folder `selections` of a sweep; also gets that of another sweep of the same settings, and that
of a copy of this sweep with other roundings."""


def exchange(first: Path, second: Path) -> None:
    """Exchange two files or folders."""
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


def replace(path: Path, source: Path) -> None:
    """Put a copy of a file or folder in the place of another."""
    if path.is_dir():
        shutil.rmtree(path)
    (shutil.copytree if source.is_dir() else shutil.copy2)(source, path)


def of_cell(cell: str, kinds: tuple[str, ...], name: str = EARLY) -> list[Path]:
    """Files of a cell of the first population, relative to `selections`."""
    paths = {kind: Path(POPULATIONS[0], f"{cell}-{kind}", name) for kind in KINDS}
    return [{**paths, "note": Path(POPULATIONS[0], f"{cell}.json")}[kind] for kind in kinds]


def between_cells(*kinds: str) -> Mix:
    """Exchange files of the two cells of a population."""

    def mix(selections: Path, foreign: Path, recomputed: Path) -> None:
        for first, second in zip(of_cell(FINISHED, kinds), of_cell(LOST, kinds), strict=True):
            exchange(selections / first, selections / second)

    return mix


def between_populations(cell: str, *kinds: str) -> Mix:
    """Exchange files of a cell with those at the same place in the other population."""

    def mix(selections: Path, foreign: Path, recomputed: Path) -> None:
        for path in of_cell(cell, kinds):
            exchange(selections / path, selections / POPULATIONS[1] / path.relative_to(POPULATIONS[0]))

    return mix


def between_batches(cell: str, *kinds: str) -> Mix:
    """Exchange files of two selections."""

    def mix(selections: Path, foreign: Path, recomputed: Path) -> None:
        for early, late in zip(of_cell(cell, kinds), of_cell(cell, kinds, LATE), strict=True):
            exchange(selections / early, selections / late)

    return mix


def renamed(cell: str, *kinds: str) -> Mix:
    """Copy files of the second selection to the names of the first one."""

    def mix(selections: Path, foreign: Path, recomputed: Path) -> None:
        for early, late in zip(of_cell(cell, kinds), of_cell(cell, kinds, LATE), strict=True):
            replace(selections / early, selections / late)

    return mix


def of_other_sweep(cell: str, *kinds: str) -> Mix:
    """Copy files of another sweep of the same settings."""

    def mix(selections: Path, foreign: Path, recomputed: Path) -> None:
        for path in of_cell(cell, kinds):
            replace(selections / path, foreign / path)

    return mix


def of_other_machine(cell: str, *kinds: str) -> Mix:
    """Copy files of this sweep, but of other roundings."""

    def mix(selections: Path, foreign: Path, recomputed: Path) -> None:
        for path in of_cell(cell, kinds):
            replace(selections / path, recomputed / path)

    return mix


def without(cell: str, *kinds: str) -> Mix:
    """Delete files."""

    def mix(selections: Path, foreign: Path, recomputed: Path) -> None:
        for path in of_cell(cell, kinds):
            (selections / path).unlink()

    return mix


def flipped(cell: str, kind: str, place: float = 0.5) -> Mix:
    """Flip a bit of a file."""

    def mix(selections: Path, foreign: Path, recomputed: Path) -> None:
        (path,) = of_cell(cell, (kind,))
        data = bytearray((selections / path).read_bytes())
        data[int(place * (len(data) - 1))] ^= 4
        (selections / path).write_bytes(data)

    return mix


def whole(name: str) -> Mix:
    """Copy a folder of another sweep of the same settings."""

    def mix(selections: Path, foreign: Path, recomputed: Path) -> None:
        replace(selections / name, foreign / name)

    return mix


def populations_exchanged(selections: Path, foreign: Path, recomputed: Path) -> None:
    """Exchange the folders of the populations."""
    exchange(selections / POPULATIONS[0], selections / POPULATIONS[1])


MIXTURES: dict[str, Mix] = {
    "scores of two cells": between_cells("scores"),
    "members of two cells": between_cells("members"),
    "notes of two cells": between_cells("note"),
    "scores and members of two cells": between_cells("scores", "members"),
    "all of two cells": between_cells("scores", "members", "note"),
    "own scores of another population": between_populations(LOST, "scores"),
    "own members of another population": between_populations(LOST, "members"),
    "own note of another population": between_populations(LOST, "note"),
    "all own of another population": between_populations(LOST, "scores", "members", "note"),
    "scores of another population": between_populations(FINISHED, "scores"),
    "members of another population": between_populations(FINISHED, "members"),
    "all of another population": between_populations(FINISHED, "scores", "members", "note"),
    "populations exchanged": populations_exchanged,
    "own scores of another batch": between_batches(LOST, "scores"),
    "own members of another batch": between_batches(LOST, "members"),
    "own scores and members of another batch": between_batches(LOST, "scores", "members"),
    "scores of another batch": between_batches(FINISHED, "scores"),
    "scores and members of another batch": between_batches(FINISHED, "scores", "members"),
    "own scores renamed": renamed(LOST, "scores"),
    "members renamed": renamed(FINISHED, "members"),
    "own scores of another sweep": of_other_sweep(LOST, "scores"),
    "own members of another sweep": of_other_sweep(LOST, "members"),
    "all own of another sweep": of_other_sweep(LOST, "scores", "members", "note"),
    "scores of another sweep": of_other_sweep(FINISHED, "scores"),
    "members of another sweep": of_other_sweep(FINISHED, "members"),
    "note of another sweep": of_other_sweep(FINISHED, "note"),
    "a population of another sweep": whole(POPULATIONS[0]),
    "a backup of an earlier sweep": whole("."),
    "own scores of another machine": of_other_machine(LOST, "scores"),
    "own members of another machine": of_other_machine(LOST, "members"),
    "own scores and members of another machine": of_other_machine(LOST, "scores", "members"),
    "scores of another machine": of_other_machine(FINISHED, "scores"),
    "members of another machine": of_other_machine(FINISHED, "members"),
    "own members without scores": without(LOST, "scores"),
    "own scores without members": without(LOST, "members"),
    "members without scores": without(FINISHED, "scores"),
    "scores without members": without(FINISHED, "members"),
    "a bit of own scores": flipped(LOST, "scores", 0.99),
    "a bit of members": flipped(FINISHED, "members", 0.99),
    "a bit of a note": flipped(FINISHED, "note"),
}

HEALED = ("own members without scores", "own scores without members")
"""What is computed again, and compared with what was noted."""


def recompute(selections: Path, run_id: str, rounding: float = 1e-6) -> None:
    """Change what all cells offered as if it had been computed on another machine."""
    from safetensors.numpy import load_file, safe_open

    for path in sorted(selections.glob("*/*-*/*.safetensors")):
        with safe_open(path, "numpy") as file:
            content = json.loads(file.metadata()["popsim"])
        arrays = {
            name: array + np.asarray(rounding, array.dtype) if array.dtype.kind == "f" else array
            for name, array in load_file(path).items()
        }
        files = Checkpoints(path.parent, n_kept=99, run_id=run_id, belongs_to=content["belongs_to"])
        path.unlink()
        files.save(content["step"], arrays, {})
        files.wait()


# What a bad copy may do to the cells, all of which are finished.

CellMix = Callable[[Path, Path], None]
"""Changes the folder of a sweep; also gets another sweep of the same settings."""


def cells_exchange(name: str, first: str = FINISHED, second: str = LOST) -> CellMix:
    """Exchange a file or a folder of two cells; their whole folders for the name "."."""

    def mix(sweep: Path, foreign: Path) -> None:
        exchange(*(sweep.joinpath("cells", cell, name) for cell in (first, second)))

    return mix


def cell_of_other_sweep(name: str) -> CellMix:
    """Copy a file or a folder of the same cell of another sweep."""
    return lambda sweep, foreign: replace(*(path / "cells" / LOST / name for path in (sweep, foreign)))


PARTS_OF_CELLS = ("run.json", "training.json", "log.jsonl", "history.zarr", "checkpoints", "summary.json")
CELL_MIXTURES: dict[str, CellMix] = {
    **{f"{name} of two cells": cells_exchange(name) for name in (*PARTS_OF_CELLS, "cell.json")},
    **{f"{name} of two populations": cells_exchange(name, "000002") for name in PARTS_OF_CELLS},
    **{f"{name} of another sweep": cell_of_other_sweep(name) for name in (*PARTS_OF_CELLS, "cell.json")},
    "two cells exchanged": cells_exchange("."),
    "cells of two populations exchanged": cells_exchange(".", "000002"),
    "a cell of another sweep": cell_of_other_sweep("."),
    "the index of another sweep": lambda sweep, foreign: replace(
        sweep / "index.safetensors", foreign / "index.safetensors"
    ),
}
