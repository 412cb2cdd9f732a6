"""Which of the stored trials train, and which validate."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from popsim._checks import is_number, is_numeric, short_repr, warn_caller
from popsim.per_member import PerMember
from popsim.randomness import seed_key
from popsim.tasks.stored._stored_arrays import in_seconds


def training_and_validation(
    train: Any, validation: Any, conditions: Mapping[str, np.ndarray], n_trials: int
) -> tuple[Any, Any]:
    """Return the numbers of the trials that train and of those that validate; of members, if one is."""
    counts = {len(each.values) for each in (train, validation) if isinstance(each, PerMember)}
    if len(counts) > 1:
        raise ValueError(f"`train` and `validation` must be of the same members, got {sorted(counts)}.")
    selections = [
        _of_one_member(_at(train, member), _at(validation, member), conditions, n_trials)
        for member in range(max(counts, default=1))
    ]
    shared = np.unique(np.concatenate([np.intersect1d(*both) for both in selections]))
    if shared.size:
        warn_caller(
            f"`train` and `validation` have {shared.size} of {n_trials} trials in common, such as "
            f"{shared[0]}: the validation loss does not measure how a network does on trials that it has not "
            "seen."
        )
    if not counts:
        return selections[0]
    for name, numbers in zip(("train", "validation"), zip(*selections, strict=True), strict=True):
        if len(lengths := {each.size for each in numbers}) > 1:
            raise ValueError(
                f"`{name}` must be as many trials for each member, got {sorted(lengths)} trials."
            )
    training, validating = (PerMember(np.stack(numbers)) for numbers in zip(*selections, strict=True))
    return training, validating


def _at(selection: Any, member: int) -> Any:
    """Return the selection of one member."""
    return np.asarray(selection.values)[member] if isinstance(selection, PerMember) else selection


def _of_one_member(
    train: Any, validation: Any, conditions: Mapping[str, np.ndarray], n_trials: int
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " validation"]]:
    if train is not None and not is_number(train):
        training = _selected("train", train, conditions, n_trials)
        return training, _selected("validation", validation, conditions, n_trials, others=training)
    validating = _selected("validation", validation, conditions, n_trials)
    if train is not None:
        return _selected("train", train, conditions, n_trials, others=validating), validating
    training = np.setdiff1d(np.arange(n_trials), validating)
    if not training.size:
        raise ValueError("`train` must be at least one trial, got none: `validation` has all of them.")
    return training, validating


def _selected(
    name: str,
    selection: Any,
    conditions: Mapping[str, np.ndarray],
    n_trials: int,
    others: Int[np.ndarray, " other"] | None = None,
) -> Int[np.ndarray, " selected"]:
    """Return the trials that an argument called `name` selects; a fraction draws none of `others`."""
    if isinstance(selection, Mapping):
        return _of_conditions(name, selection, conditions, n_trials)
    if is_number(selection):
        return _drawn(name, float(selection), n_trials, others)
    others_too = 'values of conditions such as {"direction": [0, 3]}, or a fraction'
    return numbers_of_trials(name, selection, n_trials, others_too)


def numbers_of_trials(
    name: str, selection: Any, n_trials: int, alternative: str
) -> Int[np.ndarray, " selected"]:
    """Return the numbers of the trials that are given by their numbers, or by a bool for each.

    **Arguments:**

    - `alternative`: what else may be given, for the error message.
    """
    try:
        numbers = np.asarray(selection)
    except ValueError:  # lists of different lengths
        numbers = np.empty(0)
    if numbers.dtype == bool and numbers.shape == (n_trials,):
        numbers = np.flatnonzero(numbers)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not numbers.size:
        raise ValueError(
            f"`{name}` must be numbers of trials, {n_trials} bools of which one is True, {alternative}, "
            f"got {short_repr(selection)}."
        )
    if numbers.min() < 0 or numbers.max() >= n_trials or np.unique(numbers).size < numbers.size:
        raise ValueError(
            f"`{name}` must be numbers of trials, 0 to {n_trials - 1}, each once, "
            f"got {short_repr(selection)}."
        )
    return numbers


def _drawn(
    name: str, fraction: float, n_trials: int, others: Int[np.ndarray, " other"] | None
) -> Int[np.ndarray, " selected"]:
    with jax.ensure_compile_time_eval():
        order = np.asarray(jax.random.permutation(seed_key(0), n_trials))
    n_free = n_trials - 1 if others is None else n_trials - others.size
    wanted = fraction * n_trials
    # Two halves of an odd number of trials are rounded up and down.
    if not 0 < fraction < 1 or round(wanted) < 1 or not n_free or wanted >= n_free + 1:
        raise ValueError(
            f"`{name}` as a fraction must leave some of {n_trials} trials on both sides, at most {n_free} "
            f"that the other of `train` and `validation` does not select, got {fraction}."
        )
    order = order if others is None else order[~np.isin(order, others)]
    return np.sort(order[: min(round(wanted), n_free)])


def _of_conditions(
    name: str, selection: Mapping[str, Any], conditions: Mapping[str, np.ndarray], n_trials: int
) -> Int[np.ndarray, " selected"]:
    is_selected = np.ones(n_trials, bool)
    for key, values in selection.items():
        if key not in conditions or conditions[key].ndim != 1:
            raise ValueError(
                f"`{name}` must be of conditions that are one number, "
                f"{[each for each, labels in conditions.items() if labels.ndim == 1]}, got {key!r}."
            )
        labels = conditions[key]
        wanted = np.atleast_1d(np.asarray(in_seconds(f"{name}[{key!r}]", values)))
        is_kind = is_numeric(wanted.dtype)
        if is_kind and np.issubdtype(labels.dtype, np.floating):
            wanted = wanted.astype(labels.dtype)  # 0.1 is that of the precision of the labels
        if not is_kind or not wanted.size or not np.all(np.isin(wanted, labels)):
            raise ValueError(
                f"`{name}[{key!r}]` must be values that occur, such as {np.unique(labels)[:8].tolist()}, got "
                f"{short_repr(values)}."
            )
        is_selected &= np.isin(labels, wanted)
    if not selection or not is_selected.any():
        raise ValueError(f"`{name}` must select at least one trial, got none by {short_repr(selection)}.")
    return np.flatnonzero(is_selected)
