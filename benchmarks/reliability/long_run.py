"""A hundred thousand small batches, kept in a folder: memory, open files and compiled programs meanwhile.

Exits with 1 if the memory grows by one percent or more after the first tenth, if the number of open files
grows, or if anything is compiled twice.
"""

import argparse
import tempfile
from pathlib import Path

from fault_table import Table
from long_run import run


def main() -> None:
    """Train, and print what the process held after the first and the last tenth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--checkpoint-seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    table = Table("MB at 1/10", "MB", "% growth", "files", "compiled")
    with tempfile.TemporaryDirectory() as folder:
        usages = run(Path(folder), arguments.batches, checkpoint_seconds=arguments.checkpoint_seconds)
    first, last = usages[0], usages[-1]
    growth = 100 * (last.memory / first.memory - 1)
    is_kept = growth < 1 and last.n_files < first.n_files + 16 and last.n_compiled == first.n_compiled
    table.row(
        f"{arguments.batches:,} batches",
        f"{first.memory / 1e6:.0f}",
        f"{last.memory / 1e6:.0f}",
        f"{growth:.2f}",
        last.n_files,
        last.n_compiled - first.n_compiled,
        failures=[] if is_kept else [f"after each tenth {usages}"],
    )
    table.finish()


if __name__ == "__main__":
    main()
