"""Verify the files of a run."""

from pathlib import Path

from popsim.experiments.run_info import read_run_info
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import damage_of_run

__all__ = ["verify_run"]

UNCHECKED = "the numbers in log.jsonl and the order of its lines; what is in figures/ and tensorboard/"
"""What `verify_run` does not check."""


def verify_run(path: str | Path) -> dict[str, str]:
    """Check a run, or a training in its folder, one part at a time.

    Every byte of it is read, see `damage_of_run`. Of the log, the numbers and the order of lines are not
    checked, nor what is in the figures and in `tensorboard/`. A run in progress may be verified as well.

    **Arguments:**

    - `path`: the folder of the run, or the `chkpt_dir` of a training.

    **Returns:** the problems by file or checkpoint, relative to `path`; empty if there are none.

    **Raises:** as `read_run_info`.
    """
    return damage_texts(read_run_info(path).described)


def damage_texts(described: DescribedRun) -> dict[str, str]:
    """Return what `damage_of_run` finds, as texts."""
    return {name: str(error) for name, error in damage_of_run(described).items()}
