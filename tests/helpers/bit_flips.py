"""Faults put into files one at a time, and what a reader makes of them."""

import collections
from collections.abc import Callable
from pathlib import Path

import numpy as np


def flip_bit(good: bytes, rng: np.random.Generator) -> bytes:
    """`good` with one bit flipped."""
    bad = bytearray(good)
    bad[rng.integers(len(bad))] ^= 1 << int(rng.integers(8))
    return bytes(bad)


def cut_short(good: bytes, rng: np.random.Generator) -> bytes:
    """The beginning of `good`."""
    return good[: rng.integers(len(good))]


def count_outcomes(
    folder: Path,
    fault: Callable[[bytes, np.random.Generator], bytes],
    read: Callable[[], object],
    *,
    n_faults: int,
    seed: int,
    refusals: type[Exception] | tuple[type[Exception], ...],
) -> collections.Counter[str]:
    """Put faults into the files below a folder, one after the other, read, and mend.

    **Arguments:**

    - `folder`: a file is drawn first, then a place in it, so that small files are hit as often as large ones.
    - `fault`: such as `flip_bit`.
    - `read`: returns what can be compared by `==`.
    - `refusals`: the errors that count as refusals; others pass.

    **Returns:** how often the reader "refused", was "unharmed", or read something "wrong" and said nothing.
    """
    whole = read()
    rng = np.random.default_rng(seed)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    outcomes = collections.Counter()
    for _ in range(n_faults):
        path = files[rng.integers(len(files))]
        good = path.read_bytes()
        path.write_bytes(fault(good, rng))
        try:
            outcomes["unharmed" if read() == whole else "wrong"] += 1
        except refusals:
            outcomes["refused"] += 1
        path.write_bytes(good)
    return outcomes
