"""Which of the stored trials train, and which validate."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from popsim._checks import is_number, short_repr
from popsim.randomness import seed_key


def training_and_validation(
    train: Any, validation: Any, conditions: Mapping[str, np.ndarray], n_trials: int
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " validation"]]:
    """Return the numbers of the trials that train, and of those that validate.

    Trials that are drawn, as a fraction of all, are none of those that the other argument selects.

    **Arguments:**

    - `train`, `validation`: numbers of trials, a bool for each, values of conditions by name, or a fraction;
        `train` may be None, for all that do not validate.
    - `conditions`: the conditions of all trials.
    - `n_trials`: the number of trials.
    """
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
    """Return the numbers of the trials that an argument called `name` selects.

    **Arguments:**

    - `others`: the trials that a fraction does not draw.
    """
    if isinstance(selection, Mapping):
        return _of_conditions(name, selection, conditions, n_trials)
    if is_number(selection):
        return _drawn(name, float(selection), n_trials, others)
    numbers = np.asarray(selection)
    if numbers.dtype == bool and numbers.shape == (n_trials,):
        numbers = np.flatnonzero(numbers)
    if numbers.ndim != 1 or not (np.issubdtype(numbers.dtype, np.integer) and numbers.size):
        raise ValueError(
            f"`{name}` must be numbers of trials, {n_trials} bools of which one is True, values of "
            f'conditions such as {{"direction": [0, 3]}}, or a fraction, got {short_repr(selection)}.'
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
        labels, wanted = conditions[key], np.atleast_1d(np.asarray(values))
        is_kind = np.issubdtype(wanted.dtype, np.number) or wanted.dtype == bool
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
