"""A population whose members are divided over several trainings, of which each knows the others by this."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

__all__ = ["AbstractDividedPopulation", "StoppedForSelection"]


class StoppedForSelection(BaseException):
    """A training ends at a selection of its population that is not decided yet.

    No `Exception`, which an update might handle.
    """


@dataclasses.dataclass
class AbstractDividedPopulation(abc.ABC):
    """What a training knows of its population if other trainings have members of it, see `popsim.sweeps`.

    - `part`: the number of this training among them, from 0.
    - `places`: for each training, the places of its members in the population, on which their draws depend.
    """

    part: int
    places: tuple[Int[np.ndarray, " _"], ...]

    @property
    def own_places(self) -> Int[np.ndarray, " member"]:
        """The places of the members of this training."""
        return self.places[self.part]

    @property
    def size(self) -> int:
        """The number of members of the population."""
        return sum(places.size for places in self.places)

    @property
    def label(self) -> str:
        """The place of this training in the population, in words."""
        return f"part {self.part} of {len(self.places)}, with members {self.own_places.tolist()!s:.200}"

    @abc.abstractmethod
    def gather_scores(
        self, n_batches: int, own_scores: Float[np.ndarray, " member"]
    ) -> Float[np.ndarray, " population"]:
        """Return the scores of all members for the selection after `n_batches`.

        **Raises:** `StoppedForSelection` if they are not known yet: the training, which is saved, ends, and
        comes here again when it is resumed.
        """

    @abc.abstractmethod
    def read_part(
        self, part: int, n_batches: int, forms: Mapping[str, jax.ShapeDtypeStruct]
    ) -> Mapping[str, Any]:
        """Return arrays, by name, of the state that another training had saved after `n_batches`."""
