"""Descriptions of the environments of trials: their actions, and what they show."""

import dataclasses

import jax

from popsim.environment import AbstractEnvironment
from popsim.randomness import seed_key

__all__ = ["EnvironmentDescription"]


@dataclasses.dataclass(frozen=True)
class EnvironmentDescription:
    """The environment of the trials of a task.

    - `name`: its class.
    - `actions`: the actions that it takes, such as "Discrete(n=2)".
    - `shows`: how many numbers it shows at a time step, by name.
    """

    name: str
    actions: str
    shows: dict[str, int]


def describe_environment(environment: AbstractEnvironment | None) -> EnvironmentDescription | None:
    """Describe the environment of stacked trials, of which only shapes are computed; None without one."""
    if environment is None:
        return None
    shown = shown_sizes(environment)
    return EnvironmentDescription(type(environment).__name__, repr(environment.actions), shown)


def shown_sizes(environment: AbstractEnvironment) -> dict[str, int]:
    """Return how many numbers the environment of stacked trials shows at a time step, by name."""

    def first(environment: AbstractEnvironment) -> dict[str, jax.Array]:
        of_one_trial = jax.tree.map(lambda leaf: leaf[0], environment)
        return of_one_trial.init(key=seed_key(0))[1]

    return {name: values.size for name, values in jax.eval_shape(first, environment).items()}


def rows_of_environment(description: EnvironmentDescription | None) -> list[tuple[str, ...]]:
    """Return the rows of a table: the environment with its actions, and what it shows."""
    if description is None:
        return []
    shown = [(name, "shown", f"{size}") for name, size in description.shows.items()]
    return [(description.name, "takes", description.actions), *sorted(shown)]
