"""How fast popsim trains, side by side with plain JAX, Feedbax, MotorNet and the bare matrix products.

Contestants take turns on one core, each in a process of its own; the table gives the median of each and of
the ratios to plain JAX, turn by turn. A folder gets the same as `speed.json` and `speed.png`.
"""

import argparse
import importlib.metadata
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from side_by_side import FOLDER, ContestantError
from speed_figure import draw
from speed_works import WORKS, Row, accelerator


def table(rows: Sequence[Row]) -> str:
    """The rows of one work as text, a column for each number that any of them has."""
    columns = list(dict.fromkeys(name for row in rows for name in row.values))
    cells = [["", "", *columns]]
    for row in rows:
        cells.append([row.case, row.who, *(_number(row.values.get(name)) for name in columns)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    labels = [f"{case:{widths[0]}}  {who:{widths[1]}}" for case, who, *_ in cells]
    numbers = [
        "".join(f"{cell:>{width + 2}}" for cell, width in zip(line[2:], widths[2:], strict=True))
        for line in cells
    ]
    return "\n".join(f"{a}{b}" for a, b in zip(labels, numbers, strict=True))


def _number(value: float | None) -> str:
    """A number with three digits, or all of its integer part."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def machine() -> dict[str, str]:
    """What ran: processor, versions, and the commit."""
    model = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=FOLDER, capture_output=True, text=True
    )
    return {
        "processor": model[0] if model else platform.processor(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("jax", "equinox", "diffrax")},
        "commit": commit.stdout.strip(),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--members", nargs="+", type=int, help="sizes of ensembles, in place of a work's own")
    parser.add_argument("--pairs", type=int, default=5, help="turns of each contestant that are counted")
    parser.add_argument("--feedbax", metavar="PYTHON", help="interpreter of an environment with Feedbax")
    parser.add_argument("--motornet", metavar="PYTHON", help="interpreter of an environment with MotorNet")
    parser.add_argument("--gpu", action="store_true", help="popsim alone, on the device that JAX finds")
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    return parser


def main() -> None:
    """Measure, print each table as soon as it stands, and write the results."""
    arguments = parser().parse_args()
    works = {"gpu": accelerator} if arguments.gpu else {name: WORKS[name] for name in arguments.works}
    rows = []
    for name, measure in works.items():
        try:
            measured = measure(arguments)
        except ContestantError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        print(f"\n{name}: {' '.join((measure.__doc__ or '').split())}\n{table(measured)}", flush=True)
        rows += measured
        write(rows, arguments.out)
    if not rows:
        sys.exit(1)


def write(rows: Sequence[Row], folder: Path | None) -> None:
    """Write all rows so far, and their figure, to a folder."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    results = {"machine": machine(), "rows": [vars(row) for row in rows]}
    (folder / "speed.json").write_text(json.dumps(results, indent=1))
    draw(rows).savefig(folder / "speed.png", dpi=150)


if __name__ == "__main__":
    main()
