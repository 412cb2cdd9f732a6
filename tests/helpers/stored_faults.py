"""Faults put into the files of stored arrays, and what became of reading them."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from popsim.store.arrays.inspection import open_arrays, verify_arrays
from popsim.store.files import CorruptDataError


def files_of(path: Path) -> list[Path]:
    """All files, in order."""
    return sorted(file for file in path.rglob("*") if file.is_file())


def outcome(path: Path, expected: dict[str, np.ndarray], attributes: dict, damaged: Path) -> str:
    """What reading everything gave: "same", "wrong", "named" (an error that names the file) or "unnamed"."""
    try:
        dataset = open_arrays(path)
        arrays = {str(name): dataset[name].values for name in dataset.variables}
    except CorruptDataError as error:
        return "named" if str(damaged) in str(error) or str(damaged.parent) in str(error) else "unnamed"
    except ValueError as error:
        return "named" if damaged.name in str(error) else "unnamed"
    same = arrays.keys() == expected.keys() and dataset.attrs == attributes
    same = same and all(arrays[name].dtype == expected[name].dtype for name in expected)
    same = same and all(arrays[name].tobytes() == expected[name].tobytes() for name in expected)
    return "same" if same else "wrong"


def bit_flips(path: Path, n_flips: int, seed: int) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Files drawn at random, and functions that flip one bit drawn at random in them."""
    random = np.random.default_rng(seed)
    files = files_of(path)
    for _ in range(n_flips):
        file = files[random.integers(len(files))]
        bit = int(random.integers(8 * file.stat().st_size))
        yield file, lambda file=file, bit=bit: flip(file, bit)


def flip(file: Path, bit: int) -> None:
    """Flip one bit of a file."""
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def cuts(path: Path, n_cuts: int, seed: int) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Files drawn at random, and functions that cut them off at a place drawn at random."""
    random = np.random.default_rng(seed)
    files = files_of(path)
    for _ in range(n_cuts):
        file = files[random.integers(len(files))]
        length = int(random.integers(file.stat().st_size))
        yield file, lambda file=file, length=length: cut_off(file, length)


def cut_off(file: Path, length: int) -> None:
    """Cut a file off after `length` bytes."""
    file.write_bytes(file.read_bytes()[:length])


def deletions(path: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Each file, and a function that deletes it."""
    for file in files_of(path):
        yield file, file.unlink


def outcomes(
    path: Path,
    faults: Iterator[tuple[Path, Callable[[], None]]],
    expected: dict[str, np.ndarray],
    attributes: dict,
) -> Counter[str]:
    """Put in one fault after the other, each alone, and count what became of reading and verifying.

    **Returns:** how often which outcome; "unverified" where `verify_arrays` did not name what reading
    refused, or refused what is sound.
    """
    found: Counter[str] = Counter()
    for file, fault in list(faults):
        kept = file.with_name(file.name + " kept")
        shutil.copy(file, kept)
        fault()
        what = outcome(path, expected, attributes, file)
        found[what] += 1
        try:
            damaged = verify_arrays(path)
        except ValueError:
            damaged = ["zarr.json"]
        found["unverified"] += (what == "same") != (damaged == [])
        found["unverified"] += bool(damaged) and damaged[0] != str(file.relative_to(path))
        kept.replace(file)
    return found
