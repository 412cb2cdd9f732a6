"""A hundred thousand small batches, kept in a folder: memory, open files and compiled programs meanwhile.

Exits with 1 if the memory grows by one percent or more after the first tenth, if the number of open files
grows, or if anything is compiled twice.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import long_run

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--batches", type=int, default=100_000)
parser.add_argument("--checkpoint-seconds", type=float, default=60.0)
arguments = parser.parse_args()


def main() -> None:
    """Train, and print what the process held after each tenth."""
    with tempfile.TemporaryDirectory() as folder:
        usages = long_run.run(
            Path(folder), arguments.batches, checkpoint_seconds=arguments.checkpoint_seconds
        )
    print("tenth   memory (MB)   open files   programs compiled")
    for tenth, usage in enumerate(usages, 1):
        print(f"{tenth:5}   {usage.memory / 1e6:11.1f}   {usage.n_files:10}   {usage.n_compiled:17}")
    growth = usages[-1].memory / usages[0].memory - 1
    print(f"growth of memory after the first tenth: {100 * growth:.2f} %")
    kept = growth < 0.01 and usages[-1].n_files < usages[0].n_files + 16
    sys.exit(not (kept and len({usage.n_compiled for usage in usages}) == 1))


if __name__ == "__main__":
    main()
