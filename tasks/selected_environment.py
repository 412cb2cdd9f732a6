"""One environment for trials of several tasks, each of which has its own."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from popsim.environment import AbstractEnvironment, Box, Discrete, Observation, Outcome
from popsim.randomness import key_stream

__all__ = ["SelectedEnvironment"]


class SelectedEnvironment(AbstractEnvironment):
    """The environment of one of several tasks: it steps those of all, and selects.

    It shows what any of them shows, by name, and zeros for what the selected one lacks. It takes as many
    actions as any of them does: an action that the selected one lacks is its last one, and of a vector it
    takes the first numbers. The trial ends when that of the selected one does. It records by the name of the
    task what its environment records, zeros where it is not selected.

    **Arguments:**

    - `environments`: the environment of each task.
    - `selected`: the index of the one that acts.
    - `n_steps`: the number of time steps of its trial, which may be shorter than the others.
    - `names`: the names of the tasks.
    """

    environments: tuple[AbstractEnvironment, ...]
    selected: Int[Array, "*axes"]
    n_steps: Int[Array, "*axes"]
    names: tuple[str, ...] = eqx.field(static=True)

    @property
    def actions(self) -> Discrete | Box:
        return common_actions(self.environments)

    def init(self, *, key: Key[Array, ""]) -> tuple[PyTree[Array], Observation]:
        return self._start(lambda environment, key: environment.init(key=key), key)

    def resume(self, state: PyTree[Array], *, key: Key[Array, ""]) -> tuple[PyTree[Array], Observation]:
        states = iter(state["states"])
        return self._start(lambda environment, key: environment.resume(next(states), key=key), key)

    def step(
        self, state: PyTree[Array], action: Any, *, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], Outcome]:
        stepped = [
            environment.step(of_environment, _own_action(environment, action), key=self._key(name, key))
            for environment, of_environment, name in zip(
                self.environments, state["states"], self.names, strict=True
            )
        ]
        outcomes = [outcome for _, outcome in stepped]
        is_last = state["step"] >= self.n_steps - 1
        # The others stay as they are: actions are meant for the selected one alone.
        states = tuple(
            jax.tree.map(lambda new, old, i=i: jnp.where(self.selected == i, new, old), each, before)
            for i, ((each, _), before) in enumerate(zip(stepped, state["states"], strict=True))
        )
        after = {"states": states, "step": state["step"] + 1}
        return after, Outcome(
            self._shown([outcome.observation for outcome in outcomes]),
            self._of_selected([jnp.asarray(outcome.reward, float) for outcome in outcomes]),
            self._of_selected([outcome.done for outcome in outcomes]) | is_last,
            {
                name: jax.tree.map(lambda leaf, i=i: _where(self.selected == i, leaf), outcome.record)
                for i, (name, outcome) in enumerate(zip(self.names, outcomes, strict=True))
                if jax.tree.leaves(outcome.record)
            },
        )

    def _start(
        self, begin: Callable[[AbstractEnvironment, Any], tuple[PyTree[Array], Observation]], key: Any
    ) -> tuple[PyTree[Array], Observation]:
        started = [
            begin(environment, self._key(name, key))
            for environment, name in zip(self.environments, self.names, strict=True)
        ]
        states, shown = zip(*started, strict=True)
        return {"states": tuple(states), "step": jnp.array(0)}, self._shown(list(shown))

    def _key(self, name: str, key: Key[Array, ""]) -> Key[Array, ""]:
        return key_stream(key, f"task {name}")

    def _shown(self, observations: list[Observation]) -> Observation:
        widths: dict[str, int] = {}
        for observation in observations:
            for name, values in observation.items():
                widths[name] = max(widths.get(name, 0), values.shape[0])
        return {
            name: self._of_selected([_padded(each.get(name), width) for each in observations])
            for name, width in widths.items()
        }

    def _of_selected(self, values: list[Array]) -> Array:
        """Return the value of the selected environment. The others may be anything, even not finite."""
        chosen = _where(self.selected == 0, values[0])
        for index, value in enumerate(values[1:], 1):
            chosen = jnp.where(self.selected == index, value, chosen)
        return chosen


def _where(is_selected: Bool[Array, ""], value: Array) -> Array:
    return jnp.where(is_selected, value, jnp.zeros_like(value))


def _padded(values: Float[Array, " features"] | None, width: int) -> Float[Array, " width"]:
    return jnp.zeros(width) if values is None else jnp.pad(values, (0, width - values.shape[0]))


def _own_action(environment: AbstractEnvironment, action: Any) -> Any:
    """Return what an environment takes for an action of the largest space."""
    match environment.actions:
        case Discrete(n=n):
            return jnp.minimum(action, n - 1)
        case Box(n=n, low=low, high=high):
            return jnp.clip(action[:n], low, high)
    raise AssertionError(environment.actions)  # refused by `common_actions`


def common_actions(environments: tuple[AbstractEnvironment, ...]) -> Discrete | Box:
    """Return the actions that hold those of all environments; raise `ValueError` if there are none."""
    spaces = [environment.actions for environment in environments]
    largest = max((getattr(space, "n", 0) for space in spaces), default=0)
    for kind in (Discrete, Box):
        if all(isinstance(space, kind) for space in spaces):
            return kind(largest)
    raise ValueError(
        "`tasks` must have environments that all take discrete actions, or all vectors, "
        f"got {', '.join(map(str, spaces))}."
    )


def check_environments(environments: Mapping[str, AbstractEnvironment | None]) -> None:
    """Raise `ValueError` unless all tasks have an environment, with actions of one kind, or none has."""
    present = {name: each for name, each in environments.items() if each is not None}
    if present and len(present) < len(environments):
        without = sorted(set(environments) - set(present))
        raise ValueError(
            "`tasks` must all have an environment, or none of them, "
            f"got {sorted(present)} with one and {without} without."
        )
    if present:
        common_actions(tuple(present.values()))
