"""Runs `center_out_training.py` in a process of its own, so that its memory and its cores are its own."""

import dataclasses
import subprocess
import sys
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Cost:
    """Seconds to the first batch, seconds a batch after it, and the peak memory of the process in GB."""

    first: float
    batch: float
    peak: float


def train(*options: str) -> Cost:
    """The cost of a training with these options."""
    worker = Path(__file__).with_name("center_out_training.py")
    run = subprocess.run([sys.executable, worker, *options], check=True, capture_output=True, text=True)
    return Cost(*map(float, run.stdout.split()))
