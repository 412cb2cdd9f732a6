"""Promises 17 and 22: files of a sweep that a bad copy put in the wrong place are said by name.

Two populations of two cells select twice. What the cells offered one another is mixed (between cells,
populations, selections, sweeps, machines; only one of two files; flipped bits) in a copy of the finished
sweep from which a cell is lost: training it again must stop with the name of a file, or give the same
networks to the bit. Then parts of the cells are mixed: what is shown must be the same, or NaN with the name
of the cell.
"""

import hashlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from fault_table import Table
from faults.mixtures import CELL_MIXTURES, LOST, MIXTURES, recompute
from swept_runs import Swept

from popsim.sweeps import CellsFailed, Sweep, make_sweep, open_sweep, run_sweep

warnings.simplefilter("ignore")  # of damage, which is asked for


def make(path: Path) -> None:
    """Train two populations of two cells."""
    experiment = Swept(n_batches=9, log_step=3, select_every=3)
    axes = {"rate": (1e-3, 1e-2), "hidden_noise": (0.0, 0.1)}
    make_sweep(Sweep(experiment, axes, range(4), members_per_cell=4, member_batch_size=2), path)
    run_sweep(path)


def result_digests(path: Path) -> dict[str, str]:
    """Digests of the networks and the genealogies of all members."""
    opened = open_sweep(path)
    network = opened.ensemble().network
    arrays = {"bias": network.bias, "weights": network.recurrent_weights}
    arrays["parent"] = opened.history.parent.values
    return {name: hashlib.sha256(np.asarray(array).tobytes()).hexdigest() for name, array in arrays.items()}


def verdict_of_training(path: Path, sound: dict[str, str]) -> str:
    """What came of training a lost cell again."""
    try:
        run_sweep(path)
    except (CellsFailed, ValueError) as error:
        return "named" if "selections" in str(error) else f"WRONG: {error}"
    return "the same" if result_digests(path) == sound else "WRONG: other networks, without a word"


def rows_of(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """What is shown of each member, and the problem of its cell."""
    opened = open_sweep(path)
    summary = opened.summary()
    losses = opened.total_loss.values
    rows = json.loads(summary.drop(columns=["state", "batches"]).to_json(orient="records"))
    for row, loss in zip(rows, losses.T, strict=True):
        row["history"] = loss.tobytes().hex() if np.isfinite(loss).all() else None
        row["weights"] = weights_of(opened, row)
    return rows, [opened.problem_of(row["cell"]) for row in rows]


def weights_of(opened: Any, row: dict[str, Any]) -> str | None:
    """The weights of a member at the end; None if its cell is refused by name."""
    try:
        model = opened.where(cell=row["cell"]).ensemble()
    except ValueError as error:
        assert str(opened.folder.path) in str(error) or "cell" in str(error)
        return None
    return np.asarray(model.network.bias[row["place"]]).tobytes().hex()


def verdict_of_reading(path: Path, sound: list[dict[str, Any]]) -> str:
    """What came of reading a sweep whose cells were mixed."""
    try:
        rows, problems = rows_of(path)
    except ValueError as error:
        return "named" if str(path) in str(error) else f"WRONG: {error}"
    for row, expected, problem in zip(rows, sound, problems, strict=True):
        changed = [name for name, value in expected.items() if row.get(name) not in (value, None)]
        lost = [name for name, value in expected.items() if value is not None and row.get(name) is None]
        if changed or (set(lost) - {"weights", "history"} and not problem):
            return f"WRONG: cell {row['cell']}: {changed or lost}, {problem or 'without a word'}"
    return "the same" if rows == sound else "named"


def judge(table: Table, group: str, mixtures: Iterable[str], mix: Callable[[str], str]) -> None:
    """Print what came of each mixture, and how many there were of each kind."""
    kinds = []
    for name in mixtures:
        verdict = mix(name)
        kinds.append(verdict.partition(":")[0])
        table.row(f"{group}: {name}", kinds[-1], failures=[verdict] if kinds[-1] == "WRONG" else [])
    for kind in ("named", "the same", "WRONG"):
        table.row(f"{group}, {kind}", kinds.count(kind), failures=[])


def main() -> None:
    """Mix, train and read, and print."""
    table = Table("what came out")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jax.config.update("jax_compilation_cache_dir", str(folder / "programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        make(folder / "sound")
        make(folder / "foreign")
        shutil.copytree(folder / "sound" / "selections", folder / "recomputed")
        recompute(folder / "recomputed", open_sweep(folder / "sound").sweep_id)
        networks, (rows, _) = result_digests(folder / "sound"), rows_of(folder / "sound")
        copy = folder / "copy"

        def mix_and_train(mixture: str) -> str:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(folder / "sound", copy)
            shutil.rmtree(copy / "cells" / LOST)
            MIXTURES[mixture](copy / "selections", folder / "foreign" / "selections", folder / "recomputed")
            return verdict_of_training(copy, networks)

        def mix_and_read(mixture: str) -> str:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(folder / "sound", copy)
            CELL_MIXTURES[mixture](copy, folder / "foreign")
            return verdict_of_reading(copy, rows)

        judge(table, "selections", MIXTURES, mix_and_train)
        judge(table, "cells", CELL_MIXTURES, mix_and_read)
    table.finish()


if __name__ == "__main__":
    main()
