"""How a training is cut into calls of the compiled loop, and which batches are recorded."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Int


def batch_numbers(name: str, value: object, n_batches: int) -> Int[np.ndarray, " kept"]:
    """Check and sort an array of batch numbers; a boolean for each batch is taken as a mask.

    **Raises:** `ValueError` if it is not one-dimensional and of whole numbers, or one is out of range, or
    a mask has not an entry for each of the `n_batches`.
    """
    numbers = np.asarray(value)
    if numbers.dtype == bool and numbers.shape == (n_batches,):
        return np.flatnonzero(numbers)
    if numbers.ndim != 1 or not (np.issubdtype(numbers.dtype, np.integer) or numbers.size == 0):
        raise ValueError(
            f"`{name}` must be a 1D array of batch numbers, or of {n_batches} booleans, one for each batch, "
            f"got shape {numbers.shape} of {numbers.dtype}."
        )
    outside = numbers[(numbers < 0) | (numbers >= n_batches)]
    if outside.size:
        raise ValueError(f"`{name}` must hold batch numbers from 0 to {n_batches - 1}, got {outside[0]}.")
    return np.unique(numbers.astype(int))


class CallSchedule:
    """Into which calls of the compiled loop a training is cut.

    A call ends at each batch after which the host has something to do, has at most `capacity` batches,
    and, as soon as the time of a batch is known, lasts about `seconds`, so that the progress bar and
    signals stay prompt. None of this changes what is computed.
    """

    def __init__(
        self,
        first_batch: int,
        n_batches: int,
        stops_after: Iterable[int],
        *,
        capacity: int,
        seconds: float = 1.0,
    ):
        self._ends = np.asarray(sorted({*stops_after, n_batches - 1}), int) + 1
        self._capacity = capacity
        self._seconds = seconds
        self._paced = 1
        self._n_calls = 0
        self._n_batches = n_batches
        self.next_batch = first_batch
        self.last_count = 0

    @property
    def finished(self) -> bool:
        """Whether all batches have been made."""
        return self.next_batch >= self._n_batches

    def next_count(self) -> int:
        """How many batches the next call makes."""
        end = self._ends[np.searchsorted(self._ends, self.next_batch, side="right")]
        return int(min(end - self.next_batch, self._capacity, self._paced))

    def made(self, count: int, seconds: float) -> None:
        """Say how many batches a call made and how long it took. The first call is not timed: it compiles."""
        self.next_batch += count
        self.last_count = count
        self._n_calls += 1
        if self._n_calls > 1:
            fitting = self._seconds / max(seconds / count, 1e-9)
            self._paced = int(np.clip(fitting, 1, self._capacity))


def checked_callbacks(
    batch_callbacks: Mapping[int, Sequence[Callable[[], None]]], n_batches: int
) -> dict[int, Sequence[Callable[[], None]]]:
    """The callbacks by batch; raises `ValueError` if a batch is out of range or has no functions."""
    batch_numbers("batch_callbacks", list(batch_callbacks), n_batches)
    for functions in batch_callbacks.values():
        if not isinstance(functions, Sequence) or not all(map(callable, functions)):
            raise ValueError(f"`batch_callbacks` must map to sequences of functions, got {functions}.")
    return dict(batch_callbacks)


def kept_batches(save_model_trainables: object, n_batches: int) -> Int[np.ndarray, " kept"]:
    """After which batches the trainables are kept: all for True, none for False, or those given."""
    if isinstance(save_model_trainables, (bool, np.bool_)):
        return np.arange(n_batches if save_model_trainables else 0)
    return batch_numbers("save_model_trainables", save_model_trainables, n_batches)


def most_kept(kept: Int[np.ndarray, " kept"], n_batches: int) -> int:
    """How many of the `kept` batches, sorted, can fall into `n_batches` batches in a row.

    Rounded up to a power of two, up to `n_batches`, so that similar trainings share a compiled program.
    """
    within = np.searchsorted(kept, kept + n_batches) - np.arange(kept.size)
    most = int(within.max(initial=0))
    return min(n_batches, 2 ** (most - 1).bit_length()) if most else 0
