"""Plans of sweeps, descriptions of runs and configurations that ask for more than any machine has."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import forged_json

from popsim.store.files import digest

Put = Callable[[Path], Path]
"""Makes a forged file in an empty folder that is given, and returns what is opened: a folder or a file."""

PLACES: list[tuple[str, ...]] = [
    (),
    ("format",),
    ("sweep_id",),
    ("experiment",),
    ("settings",),
    ("settings", "n_members"),
    ("settings", "n_batches"),
    ("settings", "rate"),
    ("axes",),
    ("axes", "n_units"),
    ("seeds",),
    ("members_per_cell",),
    ("member_batch_size",),
    ("recording",),
    ("recording", "trainables"),
    ("n_cells",),
]
_BOMB = "\n".join(
    ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
)
_SWEPT = "experiment: swept\n"
CONFIGS: dict[str, str] = {
    "a bomb of aliases": _SWEPT + _BOMB,
    "a bomb of aliases in a setting": _SWEPT + "settings:\n  " + _BOMB.replace("\n", "\n  "),
    "a bomb of aliases in the grid": _SWEPT + "grid:\n  " + _BOMB.replace("\n", "\n  "),
    "an alias of itself": _SWEPT + "grid: &a\n  rate: [*a]\n",
    "10**9 seeds": _SWEPT + "seeds: 0:999999999\n",
    "seeds of 30 digits": _SWEPT + f"seeds: 0:{'9' * 30}\n",
    "seeds of 10**6 digits": _SWEPT + f"seeds: {'9' * 10**6}\n",
    "four axes of a hundred values": _SWEPT
    + "grid:\n"
    + "".join(
        f"  {name}: [{', '.join(str(first + i / 1000) for i in range(1, 101))}]\n"
        for name, first in (("rate", 0), ("cost", 0), ("hidden_noise", 0), ("noise", 0))
    )
    + "members_per_cell: 1\n",
    "10**12 members": _SWEPT + "settings: {n_members: 1000000000000}\n",
    "10**15 batches": _SWEPT + "settings: {n_batches: 1000000000000000}\n",
    "10**9 units": _SWEPT + "settings: {n_units: 1000000000}\n",
    "brackets": "[" * 100_000,
    "mappings": "{" * 50_000,
    "indents": "".join(" " * i + "a:\n" for i in range(2000)),
    "a MB of one line": "a" * 2**20,
    "8 MB of entries": "a: 1\n" * 1_500_000,
    "a tag of Python": _SWEPT + "settings: !!python/object/apply:os.system ['true']\n",
    "a repeated key": _SWEPT * 2,
    "no mapping": "5",
    "zero bytes": "\0" * 1000,
    "merge keys": _SWEPT + "settings: &a {rate: 1}\ngrid: {<<: [*a, *a]}\n",
}


def forged_sweeps(sweep: Path) -> Iterator[tuple[str, Put]]:
    """Copies of the plan of a sweep with a value of `forged_json` in each place, under a right checksum."""
    for place in PLACES:
        for value in forged_json.VALUES:

            def put(folder: Path, place: tuple[str, ...] = place, value: str = value) -> Path:
                shutil.copytree(sweep, folder / "sweep")
                _forge(folder / "sweep" / "sweep.json", place, forged_json.VALUES[value])
                return folder / "sweep"

            yield f"sweep.json: {'.'.join(place)[:20]} {value}", put


def _forge(path: Path, place: tuple[str, ...], text: str) -> None:
    mark = "\0forged"
    content = forged_json._with(json.loads(path.read_text()), place, mark)
    try:
        sealed = json.loads(json.dumps(content).replace(json.dumps(mark), text))
        sealed.pop("checksum", None)
        content["checksum"] = digest(sealed)
    except (ValueError, RecursionError, TypeError, AttributeError):
        pass  # no checksum fits it
    path.write_text(json.dumps(content).replace(json.dumps(mark), text))


def forged_runs(run: Path) -> Iterator[tuple[str, Put]]:
    """Copies of a run with a value of `forged_json` in each place."""
    for file, place, value in forged_json.forgeries():

        def put(folder: Path, file: str = file, place: tuple[str, ...] = place, value: str = value) -> Path:
            shutil.copytree(run, folder / "run")
            forged_json.forge(folder / "run", file, place, value)
            return folder / "run"

        yield f"{file}: {'.'.join(place)[:30]} {value}", put


def configs() -> Iterator[tuple[str, Put]]:
    """Configurations, and what is no file."""
    for name, text in CONFIGS.items():

        def put(folder: Path, text: str = text) -> Path:
            (folder / "sweep.yaml").write_text(text)
            return folder / "sweep.yaml"

        yield f"sweep.yaml: {name}", put

    def pipe(folder: Path) -> Path:
        os.mkfifo(folder / "sweep.yaml")
        return folder / "sweep.yaml"

    def endless(folder: Path) -> Path:
        (folder / "sweep.yaml").symlink_to("/dev/zero")
        return folder / "sweep.yaml"

    yield "sweep.yaml: a pipe", pipe
    yield "sweep.yaml: an endless device", endless
