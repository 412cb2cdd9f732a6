"""The population updates of a trainer by name, and the names of what they record."""

from collections.abc import Sequence
from typing import Any

from popsim._checks import as_parts
from popsim.training.population_updates.base import AbstractPopulationUpdate, metric_name_of

__all__ = ["axis_of", "check_population_updates", "label_updates", "prefix_of"]

AT_LOG_POINTS = "control"  # the axis of what acts at log points, and the prefix of its arrays


def check_population_updates(updates: Any, *, has_metrics: bool) -> None:
    """Raise `ValueError` unless the population updates of a trainer are fit to be used together.

    **Arguments:**

    - `updates`: the updates.
    - `has_metrics`: whether the trainer has `validation_metrics`.
    """
    as_parts("population_updates", updates, AbstractPopulationUpdate, "updates such as EarlyStopping(5)")
    for label, update in label_updates(updates).items():
        metric = metric_name_of(update)
        if metric is not None and not has_metrics:
            raise ValueError(
                f"`metric` of {label} must be one of `validation_metrics`, got {metric!r} without "
                "such a function."
            )
    if sum(update.replaces for update in updates) > 1:
        raise ValueError("`population_updates` must have at most one that replaces members, got several.")


def label_updates(updates: Sequence[AbstractPopulationUpdate]) -> dict[str, AbstractPopulationUpdate]:
    """Return updates by name: that of their class, with a number from the second of the same class on."""
    by_label: dict[str, AbstractPopulationUpdate] = {}
    for update in updates:
        kind = type(update).__name__
        number = sum(type(earlier_update).__name__ == kind for earlier_update in by_label.values()) + 1
        by_label[kind if number == 1 else f"{kind} {number}"] = update
    return by_label


def axis_of(label: str, update: AbstractPopulationUpdate) -> str:
    """Return the axis on which an update is recorded; all that act at log points share one."""
    return update.recorded_as or (AT_LOG_POINTS if update.every is None else label)


def prefix_of(label: str, update: AbstractPopulationUpdate) -> str:
    """Return what the names of the arrays of an update begin with where they are stored."""
    if update.recorded_as is not None:
        return ""
    return f"{AT_LOG_POINTS}.{label}." if update.every is None else f"{label}."
