"""What the scripts of this folder share: the modules of the tests, and a table that fails."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "helpers"))


class Table:
    """Prints rows as they come, and in the end all as a line of JSON, for `benchmarks/full.py`."""

    def __init__(self, *columns: str):
        self._columns = columns
        self._rows: dict[str, dict[str, str]] = {}
        self._failed = False
        print(f"{'':52}" + "".join(f"{column:>12}" for column in columns), flush=True)

    def row(self, name: str, *values: object, failures: list[str]) -> None:
        """Print a row, and below it what failed."""
        cells = [str(value) for value in values]
        print(f"{name:52}" + "".join(f"{cell:>12}" for cell in cells), flush=True)
        for failure in failures:
            print(f"    broken: {failure}", flush=True)
        self._rows[name] = dict(zip(self._columns, cells, strict=True))
        if failures:
            self._rows[name]["broken"] = str(len(failures))
            self._failed = True

    def finish(self) -> None:
        """End the script: 1 if anything failed."""
        print(json.dumps(self._rows))
        sys.exit(int(self._failed))
