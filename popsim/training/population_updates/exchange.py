"""Members that move within a population, which may be divided over several trainings."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from popsim.ensemble import members_at
from popsim.training.population_updates.base import Population
from popsim.training.population_updates.hyperparameters import (
    HyperparameterLeaf,
    inherited_parts,
    with_inherited,
)
from popsim.training.population_updates.shared_population import SharedPopulation
from popsim.training.steps.train_state import TrainState

__all__ = ["MemberExchange", "StoppedWaiting"]

SECONDS_BETWEEN_LOOKS = 0.2  # for the trainings that are waited for


class StoppedWaiting(BaseException):
    """A training was told to stop while it waited for others of its population.

    No `Exception`, which an update might handle.
    """


@dataclasses.dataclass
class MemberExchange:
    """Moves members within the population of an update, see `Population`."""

    state: TrainState
    recorded: PyTree[bool]
    places: tuple[Mapping[str, HyperparameterLeaf], Mapping[str, HyperparameterLeaf]]
    shared: SharedPopulation | None
    before: Population
    population_of: Callable[[TrainState], Population]
    n_done: int
    should_stop: Callable[[], bool]
    was_asked: bool = False

    @property
    def rows(self) -> PyTree[Array]:
        """What others may inherit of the members of this training."""
        return inherited_parts(self.state, self.recorded, self.places[0])

    def gather_scores(self, scores: Float[Any, " member"]) -> Float[Array, " population"]:
        """See `Population.gather_scores`; raises `StoppedWaiting`."""
        shared, n_members = self.shared, self.before.n_members
        if np.shape(scores) != (n_members,):
            raise ValueError(
                f"`scores` must be one number for each of the {n_members} members, "
                f"got shape {np.shape(scores)}."
            )
        if self.was_asked:
            raise ValueError("`gather_scores` may be called once in a call of an update.")
        self.was_asked = True
        if shared is None:
            return jnp.asarray(scores)
        # A training that was resumed may come here a second time. Its first offer stands, as others may have
        # used it.
        if not shared.has_offered(self.n_done):
            shared.offer(self.n_done, scores, self.rows)
        missing = None
        # Only those that were missing are looked at again, as an offer is never withdrawn.
        while missing := shared.missing_trainings(self.n_done, missing):
            if self.should_stop() or not shared.keeps_waiting(missing):
                raise StoppedWaiting
            time.sleep(SECONDS_BETWEEN_LOOKS)
        return shared.scores(self.n_done)

    def take(self, parents: Int[Any, " member"]) -> Population:
        """See `Population.take`."""
        parents, before = np.asarray(parents), self.before
        is_place = parents.dtype.kind in "iu" and np.all((parents >= 0) & (parents < before.size))
        if parents.shape != before.places.shape or not is_place:
            raise ValueError(
                f"`parents` must be {before.n_members} places, each from 0 to {before.size - 1}, "
                f"got {parents!r:.200}."
            )
        if not self.was_asked:
            raise ValueError(
                "`gather_scores` must be called before `take`: it waits for all members to be there."
            )
        if self.shared is None:
            inherited = members_at(self.rows, parents)
        else:
            inherited = self.shared.rows_of(self.n_done, parents, self.rows)
        state = with_inherited(self.state, self.recorded, *self.places, inherited)
        population = self.population_of(state)
        return dataclasses.replace(
            population, restarted=parents != population.places, _exchange=self, _members=state
        )
