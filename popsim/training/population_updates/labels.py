"""The population updates of a trainer by name, and the names of what they record."""

from collections.abc import Sequence
from typing import Any

from popsim._checks import as_parts
from popsim.training.population_updates.base import AbstractPopulationUpdate, metric_name_of

__all__ = ["axis_of", "as_population_updates", "label_updates", "prefix_of"]

AT_LOG_POINTS = "control"  # the axis of what acts at log points, and the prefix of its arrays


def as_population_updates(updates: Any, *, has_metrics: bool) -> tuple[AbstractPopulationUpdate, ...]:
    """Return the population updates of a trainer as a tuple."""
    updates = as_parts(
        "population_updates", updates, AbstractPopulationUpdate, "updates such as EarlyStopping(5)"
    )
    by_label = label_updates(updates)
    for label, update in by_label.items():
        metric = metric_name_of(update)
        if metric is not None and not has_metrics:
            raise ValueError(
                f"`metric` of {label} must be one of `validation_metrics`, got {metric!r} without "
                "such a function."
            )
    axes = {axis_of(label, update) for label, update in by_label.items()}
    if reserved := {"validation", "trainables", "trials"} & axes:
        raise ValueError(f"`recorded_as` of a population update must not be {sorted(reserved)[0]!r}.")
    if sum(update.replaces for update in updates) > 1:
        raise ValueError("`population_updates` must have at most one that replaces members, got several.")
    return updates


def label_updates(updates: Sequence[AbstractPopulationUpdate]) -> dict[str, AbstractPopulationUpdate]:
    """Return updates by name: that of their class, with a number from the second of the same class on."""
    by_label: dict[str, AbstractPopulationUpdate] = {}
    for update in updates:
        kind = type(update).__name__
        number = sum(type(earlier_update).__name__ == kind for earlier_update in by_label.values()) + 1
        by_label[kind if number == 1 else f"{kind} {number}"] = update
    return by_label


def axis_of(label: str, update: AbstractPopulationUpdate) -> str:
    """Return the axis on which an update is recorded; all that act at log points share one.

    What replaces members acts later than they do.
    """
    return update.recorded_as or (AT_LOG_POINTS if _acts_with_others(update) else label)


def prefix_of(label: str, update: AbstractPopulationUpdate) -> str:
    """Return what the names of the arrays of an update begin with where they are stored."""
    if update.recorded_as is not None:
        return ""
    return f"{AT_LOG_POINTS}.{label}." if _acts_with_others(update) else f"{label}."


def _acts_with_others(update: AbstractPopulationUpdate) -> bool:
    return update.every is None and not update.replaces
