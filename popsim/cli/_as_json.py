"""What `info`, `show` and `list` print with `--json`: one JSON value on standard output.

The keys are documented in docs/how_to/runs.md. Numbers that are not finite are null.
"""

import collections
import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from popsim.experiments.results import ResultTable
from popsim.experiments.run import Run
from popsim.experiments.run_info import RunInfo
from popsim.sweeps.opened_sweep import OpenedSweep
from popsim.sweeps.overview import current_states

DESCRIBED = ("experiment", "axes", "seeds", "n_members", "n_cells")  # in sweep.json


def print_json(value: Any) -> None:
    """Print a value as JSON, with null for numbers that are not finite."""
    print(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


OF_RUN = {
    "n_batches_saved": "n_saved",
    "n_trained_numbers": "n_trained",
    "frozen_from": "frozen",
    "stopped_from": "stopped",
    "n_log_points": "n_log_lines",
    "history": "arrays",
    "n_bytes": "sizes",
    **{name: name for name in ("settings", "writer", "n_batches", "n_members", "losses", "checkpoints")},
    **{name: name for name in ("history_damage", "n_figures")},
}
"""Keys of `info_of_run`, with the attributes of a `RunInfo`."""


def info_of_run(info: RunInfo) -> dict[str, Any]:
    """Return the contents of a run, or of a training without an experiment."""
    is_run = info.experiment_name is not None
    return {
        "kind": "run" if is_run else "training",
        "path": info.folder.path,
        "popsim": info.description.get("popsim"),
        "format": info.description.get("format"),
        "experiment": info.experiment_name,
        "changed_settings": None if info.changed is None else sorted(info.changed),
        "state": "finished" if info.is_finished else "being trained" if info.writer else "stopped",
        **{key: getattr(info, name) for key, name in OF_RUN.items()},
        "resume_command": info.folder.resume_command if is_run and not info.is_finished else None,
    }


def info_of_sweep(opened: OpenedSweep) -> dict[str, Any]:
    """Return the state of a sweep and of its cells."""
    states = current_states(opened)
    cells = [
        {"cell": number, "state": state, "problem": opened.notes[number].problem or None}
        for number, state in enumerate(states)
    ]
    return {
        "kind": "sweep",
        "path": opened.folder.path,
        **{name: opened.content.get(name) for name in DESCRIBED},
        "counts": collections.Counter(states),
        "cells": cells,
        "resume_command": None if opened.is_finished else opened.folder.command("resume"),
    }


def results_of_run(run: Run, report: Any) -> dict[str, Any]:
    """Return the results of a finished run, and where its report and figures are."""
    return {
        "kind": "run",
        "path": run.folder.path,
        "experiment": run.experiment.name,
        "is_finished": run.is_finished,
        "results": _table(run.results()),
        "summary": run.summary,
        **_files(report),
    }


def results_of_sweep(opened: OpenedSweep, report: Any, score: str) -> dict[str, Any]:
    """Return the results of a sweep, a row for each network, and where its report and figures are."""
    return {
        "kind": "sweep",
        "path": opened.folder.path,
        "experiment": opened.sweep.experiment.name,
        "is_finished": opened.is_finished,
        "score": score,
        "results": opened.summary().to_dict("records"),
        **_files(report),
    }


def _table(table: ResultTable) -> dict[str, Any]:
    columns = [
        {"name": column.name, "unit": column.unit, "heading": column.heading} for column in table.columns
    ]
    return {"caption": table.caption, "columns": columns, "rows": table.rows}


def _files(report: Any) -> dict[str, Any]:
    return {"figures": report.figures, "report": report.page}
