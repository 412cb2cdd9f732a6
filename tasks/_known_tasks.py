"""Checks of tasks of which a best player or an observer knows the numbers."""

from typing import Any

from jaxtyping import Array, Float

from popsim._checks import check_instance, check_positive, kind_of
from popsim.distributions import Choice
from popsim.per_member import check_of_one_member
from popsim.task import AbstractTask, differs_between_members


def check_known_task(task: Any, kind: type[AbstractTask], *, noise: str | None = None) -> None:
    """Check a task of which a best player or observer knows the numbers: one member's, with some noise."""
    check_instance("task", task, kind, f"a task of the class {kind.__name__}")
    if differs_between_members(task):
        check_of_one_member("task", task)
    if noise is not None:
        check_positive(f"task.{noise}", getattr(task, noise))


def values_of_choice(task: Any, name: str) -> Float[Array, "value ..."]:
    """Return the values of a distribution of a task; raise `ValueError` unless it is a `Choice`."""
    if not isinstance(drawn := getattr(task, name), Choice):
        raise ValueError(
            f"`{name}` of `task` must be a Choice, whose values are known, got {kind_of(drawn)}."
        )
    return drawn.values
