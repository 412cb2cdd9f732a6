"""Checks of the targets of trials, for the terms that are defined for some of them only."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from popsim._checks import check_finite, check_non_negative, is_traced, short_repr
from popsim.trial import OutputTarget

Values = Float[np.ndarray, "trial time output"]


def known_target(targets: Any) -> tuple[Values, Shaped[np.ndarray, "trial time ..."]] | None:
    """Return values and counts of stacked trials, after a check of their numbers; None if these are traced.

    Also None for targets of another kind or shape, which a term refuses with the shape of the output.
    """
    if not isinstance(targets, OutputTarget) or is_traced(targets):
        return None
    check_finite("targets.values", targets.values)
    check_non_negative("targets.counts", targets.counts)
    values, counts = np.asarray(targets.values), np.asarray(targets.counts)
    return (values, counts) if counts.shape in (values.shape[:-1], values.shape) else None


def is_counted(values: Values, counts: Shaped[np.ndarray, "trial time ..."]) -> Bool[np.ndarray, "..."]:
    """Return which of the values have a weight."""
    return np.broadcast_to((counts if counts.ndim == values.ndim else counts[..., None]) > 0, values.shape)


def check_choices(name: str, values: Values, counts: Shaped[np.ndarray, "trial time ..."]) -> None:
    """Raise `ValueError` if targets are no choices: numbers of classes, -1 and 1, or several at a time."""
    counted = np.where(is_counted(values, counts), values, 0.0)
    wrong = counted[(counted < 0) | (counted > 1)]
    several = counted[np.sum(counted, axis=-1) > 1.001]  # or probabilities, of rounded numbers
    if wrong.size or several.size:
        raise ValueError(
            f"`{name}` of choices must be 1 for the right one and 0 for others, such as "
            f"numpy.eye(n_choices)[labels], got {short_repr(wrong[0] if wrong.size else several[0])}."
        )


def check_one_hot(name: str, values: Values, counts: Shaped[np.ndarray, "trial time ..."]) -> None:
    """Raise `ValueError` unless exactly one action is given where targets count."""
    is_asked = np.any(is_counted(values, counts), axis=-1)
    if counts.ndim == values.ndim:  # where the weight is that of the action given, and zero without one
        is_asked &= np.any(values != 0, axis=-1)
    given = values[is_asked]
    wrong = given[(np.sum(given == 1, axis=-1) != 1) | (np.sum(given != 0, axis=-1) != 1)]
    if wrong.size:
        raise ValueError(
            f"`{name}` of actions must be 1 for the one taken and 0 for others where they count, such as "
            f"numpy.eye(n_actions)[taken], got {short_repr(wrong[0])}."
        )
