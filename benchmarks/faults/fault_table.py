"""What the scripts of this folder share: the modules of the tests, and a table that fails."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"
sys.path.insert(0, str(TESTS))


class Table:
    """Prints rows as they come; after a row with failures `finish` ends the script with 1."""

    def __init__(self, *columns: str):
        self._columns = columns
        self._failed = False
        print(f"{'':52}" + "".join(f"{column:>12}" for column in columns), flush=True)

    def row(self, what: str, *values: object, failures: list[str]) -> None:
        """Print a row, and below it what failed."""
        print(f"{what:52}" + "".join(f"{value!s:>12}" for value in values), flush=True)
        for failure in failures:
            print(f"    broken: {failure}", flush=True)
        self._failed |= bool(failures)

    def finish(self) -> None:
        """End the script: 1 if anything failed."""
        sys.exit(int(self._failed))
