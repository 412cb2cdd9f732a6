"""Faults put into files."""

import numpy as np


def flip_bit(good: bytes, rng: np.random.Generator) -> bytes:
    """`good` with one bit flipped."""
    bad = bytearray(good)
    bad[rng.integers(len(bad))] ^= 1 << int(rng.integers(8))
    return bytes(bad)


def cut_short(good: bytes, rng: np.random.Generator) -> bytes:
    """The beginning of `good`."""
    return good[: rng.integers(len(good))]
