"""JSON files of a run as no popsim writes them: under a right checksum, where the value allows one."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from popsim.store.files import digest

DEEP = 100_000
VALUES = {
    "NaN": "NaN",
    "Infinity": "-Infinity",
    "1e999": "1e999",
    "deep": "[" * DEEP + "]" * DEEP,
    "nested": '{"a":' * 400 + "1" + "}" * 400,
    "null": "null",
    "true": "true",
    "negative": "-1",
    "zero": "0",
    "fraction": "1.5",
    "huge": "1" + "0" * 30,
    "400 digits": "9" * 400,
    "no text": '""',
    "300 letters": json.dumps("x" * 300),
    "lines": '"two\\nlines"',
    "surrogate": '"\\ud800"',
    "list": "[]",
    "mixed list": '[1, "a", null, [2]]',
    "dict": "{}",
    "word": '"word"',
}

PLACES: dict[str, list[tuple[str, ...]]] = {
    "run.json": [
        (),
        ("format",),
        ("popsim",),
        ("experiment",),
        ("settings",),
        ("settings", "n_members"),
        ("settings", "n_batches"),
        ("settings", "seed"),
        ("settings", "noise"),
        ("settings", "x" * 300),
        ("recording",),
        ("recording", "trainables"),
        ("recording", "float16"),
        ("devices",),
        ("checkpoint_seconds",),
        ("checksum",),
    ],
    "training.json": [(), ("format",), ("saved",)],
    "summary.json": [(), ("networks",), ("checksum",)],
    "log.jsonl": [
        (),
        ("batch",),
        ("seconds",),
        ("loss",),
        ("loss", "squared_error"),
        ("validation_loss",),
        ("learning_rate",),
    ],
    "history.zarr/zarr.json": [
        (),
        ("attributes",),
        ("attributes", "terms"),
        ("attributes", "frozen_from"),
        ("attributes", "members"),
        ("attributes", "popsim_arrays"),
        ("attributes", "popsim_arrays", "format"),
        ("attributes", "popsim_arrays", "run_id"),
        ("attributes", "popsim_arrays", "fixed"),
        ("consolidated_metadata",),
        ("consolidated_metadata", "metadata"),
        ("consolidated_metadata", "metadata", "x" * 300),
        ("consolidated_metadata", "metadata", "loss"),
        ("consolidated_metadata", "metadata", "loss", "shape"),
        ("consolidated_metadata", "metadata", "loss", "data_type"),
        ("consolidated_metadata", "metadata", "loss", "dimension_names"),
        ("consolidated_metadata", "metadata", "loss", "chunk_grid"),
    ],
    "history.zarr/loss/zarr.json": [(), ("shape",), ("codecs",)],
}
_MARK = "\0forged"


def forgeries() -> Iterator[tuple[str, tuple[str, ...], str]]:
    """File, place in it, and the name of the value that comes there; one value after the other."""
    for value in VALUES:
        for file, places in PLACES.items():
            for place in places:
                yield file, place, value


def forge(run: Path, file: str, place: tuple[str, ...], value: str) -> None:
    """Put a value into a file of a run."""
    path = run / file
    *before, last = path.read_text().splitlines() if file == "log.jsonl" else [path.read_text()]
    content = _with(json.loads(last), place, _MARK)
    forged = VALUES[value]
    with contextlib.suppress(ValueError, RecursionError, TypeError, KeyError, AttributeError):
        _seal(content, file, json.loads(forged), place)  # else no checksum fits it
    text = json.dumps(content).replace(json.dumps(_MARK), forged)
    path.write_text("\n".join([*before, text]) + "\n")


def _with(content: Any, place: tuple[str, ...], value: Any) -> Any:
    if not place:
        return value
    first, *rest = place
    return {**content, first: _with(content.get(first, {}), tuple(rest), value)}


def _seal(content: Any, file: str, value: Any, place: tuple[str, ...]) -> None:
    """Bring the checksum of a forged file up to date."""
    forged = json.loads(json.dumps(content).replace(json.dumps(_MARK), json.dumps(value)))
    if file == "history.zarr/zarr.json":
        forged["attributes"]["popsim_arrays"].pop("checksum")
        content["attributes"]["popsim_arrays"]["checksum"] = digest(forged)
    elif "checksum" in content and place != ("checksum",):
        forged.pop("checksum")
        content["checksum"] = digest(forged)
