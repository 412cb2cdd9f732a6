"""Batches at which a training logs, records, calls back and changes phase."""

import bisect
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Int, PyTree

from popsim._shared.checks import check_positive_int, is_int
from popsim.training.options import TrainerOptions, Training
from popsim.training.steps.model_updates import is_model_update
from popsim.training.steps.train_state import WhereTrain, select_trainables

__all__ = ["every_nth_batch", "log_spaced_batches"]

SECONDS_PER_CALL = 1.0


def every_nth_batch(n_batches: int, n: int) -> Int[np.ndarray, " recorded"]:
    """Return every n-th of the `n_batches` batches of a training, and the last one."""
    check_positive_int("n_batches", n_batches)
    check_positive_int("n", n)
    return np.union1d(np.arange(n - 1, n_batches, n), [n_batches - 1])


def log_spaced_batches(n_batches: int, n: int) -> Int[np.ndarray, " recorded"]:
    """Return up to `n` batches, evenly spaced on a logarithmic scale: densest early, where learning is fast.

    Early ones that coincide are merged, which leaves fewer than `n`, at least two. The first and the last of
    the `n_batches` batches of the training are included.
    """
    check_positive_int("n_batches", n_batches)
    check_positive_int("n", n)
    if n < 2:
        raise ValueError(f"`n` must be at least 2, for the first and the last batch, got {n}.")
    return np.unique(np.rint(np.geomspace(1, n_batches, n)).astype(int)) - 1


def batch_numbers(name: str, value: object, n_batches: int) -> Int[np.ndarray, " recorded"]:
    """Check and sort an array of batch numbers; a boolean per batch is taken as a mask."""
    numbers = np.asarray(value)
    if numbers.dtype == bool and numbers.shape == (n_batches,):
        return np.flatnonzero(numbers)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and numbers.size):
        raise ValueError(
            f"`{name}` must be a 1D array of batch numbers, or of {n_batches} booleans, one for each batch, "
            f"got shape {numbers.shape} of {numbers.dtype}."
        )
    outside = numbers[(numbers < 0) | (numbers >= n_batches)]
    if outside.size:
        raise ValueError(f"`{name}` must hold batch numbers from 0 to {n_batches - 1}, got {outside[0]}.")
    return np.unique(numbers.astype(int))


@dataclasses.dataclass
class CallDivision:
    """A division of a training into calls of the compiled loop, which does not affect the results.

    A call ends at each batch after which the host has work to do, in one of the sorted lists `stops_after`,
    has at most `capacity` batches, and, once the time per batch is known, lasts about a second, so that the
    progress bar and signals stay prompt.
    """

    next_batch: int
    n_batches: int
    stops_after: Sequence[Sequence[int]]
    capacity: int
    _paced: int = 1
    _has_compiled: bool = False

    @property
    def is_finished(self) -> bool:
        return self.next_batch >= self.n_batches

    def next_count(self) -> int:
        """Return the number of batches of the next call."""
        end = self.n_batches
        for batches in self.stops_after:
            if (place := bisect.bisect_left(batches, self.next_batch)) < len(batches):
                end = min(end, batches[place] + 1)
        return min(end - self.next_batch, self.capacity, self._paced)

    def record_call(self, count: int, seconds: float) -> None:
        """Record the batches and time of a call. The first call is not timed, as it compiles."""
        self.next_batch += count
        if self._has_compiled:
            # From the last call alone, which follows a machine that gets slower or faster.
            fitting = SECONDS_PER_CALL / max(seconds / count, 1e-9)
            self._paced = int(np.clip(fitting, 1, self.capacity))
        self._has_compiled = True


def max_kept_per_call(batches: Int[np.ndarray, " recorded"], n_batches: int) -> int:
    """Return how many of the sorted `batches` can fall into `n_batches` consecutive batches.

    Rounded up to a power of two, at most `n_batches`, so that similar trainings share a compiled program.
    """
    within = np.searchsorted(batches, batches + n_batches) - np.arange(batches.size)
    most = int(within.max(initial=0))
    return min(n_batches, 2 ** (most - 1).bit_length()) if most else 0


def training_phases(
    model: PyTree, where_train: WhereTrain
) -> tuple[Callable[[Any], Any], Mapping[int, PyTree[bool] | None]]:
    """Return what selects all that is trained, and which of it each phase trains, by first batch."""
    if not isinstance(where_train, Mapping):
        return where_train, {0: None}
    if 0 not in where_train or not all(is_int(batch) and batch >= 0 for batch in where_train):
        raise ValueError(
            "`where_train` must map numbers of batches, 0 and those from which on something else is trained, "
            f"to functions, got {[*where_train]}."
        )
    selected = {batch: select_trainables(model, where_train[batch])[0] for batch in sorted(where_train)}
    # The union of all phases: the optimizer has slots for it from the start, so its state keeps its
    # structure.
    union = eqx.combine(*selected.values())

    def union_of(model: Any) -> Any:
        leaves, trained = (jax.tree.leaves(tree, is_leaf=_is_none) for tree in (model, union))
        return [leaf for leaf, part in zip(leaves, trained, strict=True) if part is not None]

    def mask_of(phase: PyTree) -> PyTree[bool] | None:
        mask = jax.tree.map(
            lambda leaf, part: None if leaf is None else part is not None, union, phase, is_leaf=_is_none
        )
        return None if all(jax.tree.leaves(mask)) else mask

    return union_of, {batch: mask_of(phase) for batch, phase in selected.items()}


def _is_none(node: Any) -> bool:
    return node is None


def enabled_updates(
    toggle: bool | PyTree, model_update_funcs: PyTree, n_batches: int
) -> Bool[np.ndarray, "batch update"] | None:
    """Return, for each training batch, which updates are applied."""
    n_updates = len(jax.tree.leaves(model_update_funcs, is_leaf=is_model_update))
    if not n_updates:
        return None
    if isinstance(toggle, (bool, np.bool_)):
        return None if toggle else np.zeros((n_batches, n_updates), bool)
    expected = jax.tree.structure(jax.tree.map(lambda _: 0, model_update_funcs, is_leaf=is_model_update))
    try:
        arrays = expected.flatten_up_to(toggle)
    except ValueError as error:
        raise ValueError(
            "`toggle_model_update_funcs` must be True, False, or of the structure of `model_update_funcs`, "
            f"with an array of batch numbers for each function, such as ([0, 1],) for (function,): {error}"
        ) from error
    enabled = np.zeros((n_batches, n_updates), bool)
    for index, array in enumerate(arrays):
        enabled[batch_numbers("toggle_model_update_funcs", array, n_batches), index] = True
    return enabled


@dataclasses.dataclass(frozen=True, eq=False)
class BatchNumbers:
    """The batches of a training at which something is done."""

    recorded_batches: Int[np.ndarray, " recorded"]
    specs: Int[np.ndarray, " spec"]
    callbacks: Mapping[int, Sequence[Callable[[], None]]]
    resets: list[int]
    enabled: Bool[np.ndarray, "batch update"] | None
    where_train: Callable[[Any], Any]
    trained: Mapping[int, PyTree[bool] | None]  # by the first batch of each phase; None for all
    logged: range


def number_batches(trainer: TrainerOptions, training: Training) -> BatchNumbers:
    """Return the batches of a training at which something is done."""
    n_batches, kept, specs = training.n_batches, training.save_model_trainables, training.save_trial_specs
    if isinstance(kept, (bool, np.bool_)):
        kept = np.arange(n_batches if kept else 0)
    recorded = batch_numbers("save_model_trainables", kept, n_batches)
    spec_batches = batch_numbers("save_trial_specs", () if specs is None else specs, n_batches)
    where_train, trained = training_phases(training.model, training.where_train)
    callbacks = dict(training.batch_callbacks or {})
    batch_numbers("where_train", list(trained), n_batches)
    batch_numbers("batch_callbacks", list(callbacks), n_batches)
    return BatchNumbers(
        recorded_batches=recorded[recorded >= training.start_batch],
        specs=spec_batches[spec_batches >= training.start_batch],
        callbacks=callbacks,
        resets=batch_numbers("reset_opt_state_at", training.reset_opt_state_at, n_batches).tolist(),
        enabled=enabled_updates(training.toggle_model_update_funcs, trainer.model_update_funcs, n_batches),
        where_train=where_train,
        trained=trained,
        logged=range(training.log_step - 1, n_batches, training.log_step),
    )
