"""Fixed points of the members of an ensemble: a table with a row for each point."""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Complex, Float, Int


@dataclasses.dataclass(frozen=True, eq=False)
class FixedPoints:
    """Points where the dynamics of members rest, or almost do; members have different numbers of them.

    Points of a member follow each other, those with the fewest unstable directions first.

    - `member`: whose point it is.
    - `state`: where it is.
    - `speed`: q = |step(h) - h|^2 / 2, in the unit of the state squared.
    - `jacobian`: of one time step, by the state, at the point.
    - `eigenvalues`: of the Jacobian, the largest absolute values first.
    - `n_unstable`: how many of them are larger than 1 + margin: the number of unstable directions.
    - `n_marginal`: how many of them are within 1 - margin and 1 + margin.
    - `n_starts`: from how many starts it was reached.
    - `n_members`: of the ensemble, with those that have no such point.
    """

    member: Int[np.ndarray, " point"]
    state: Float[np.ndarray, "point state"]
    speed: Float[np.ndarray, " point"]
    jacobian: Float[np.ndarray, "point state state"]
    eigenvalues: Complex[np.ndarray, "point state"]
    n_unstable: Int[np.ndarray, " point"]
    n_marginal: Int[np.ndarray, " point"]
    n_starts: Int[np.ndarray, " point"]
    n_members: int

    def __len__(self) -> int:
        return len(self.member)

    @property
    def residual(self) -> Float[np.ndarray, " point"]:
        """How far a time step moves the state, |step(h) - h|, in the unit of the state."""
        return np.sqrt(2 * self.speed)

    @property
    def is_stable(self) -> Bool[np.ndarray, " point"]:
        """Whether small changes of the state die out in all directions."""
        return self.n_unstable + self.n_marginal == 0

    @property
    def index(self) -> Int[np.ndarray, " point"]:
        """The sign of det(1 - A), with the Jacobian A: -1 if an odd number of eigenvalues are real and > 1.

        For a map of a ball into itself, such as that of all bounded units, the indices of all fixed points
        add up to 1 (Lefschetz, cited from memory): a check of whether they were all found.
        """
        identity = np.eye(self.jacobian.shape[-1])
        return np.linalg.slogdet(identity - self.jacobian).sign.astype(int)

    def where(self, is_chosen: Bool[np.ndarray, " point"]) -> "FixedPoints":
        """Some of the points, such as `points.where(points.is_stable)`."""
        chosen = {
            field.name: getattr(self, field.name)[is_chosen]
            for field in dataclasses.fields(self)
            if field.name != "n_members"
        }
        return dataclasses.replace(self, **chosen)

    def of_member(self, member: int) -> "FixedPoints":
        """The points of one member.

        **Raises:** `ValueError` if there is no such member.
        """
        if not 0 <= member < self.n_members:
            raise ValueError(f"`member` must be 0 to {self.n_members - 1}, got {member}.")
        return self.where(self.member == member)

    def counts(self) -> Int[np.ndarray, "member unstable"]:
        """How many points of each member have 0, 1, 2, ... unstable directions; one column at least."""
        counts = np.zeros((self.n_members, int(self.n_unstable.max(initial=0)) + 1), int)
        np.add.at(counts, (self.member, self.n_unstable), 1)
        return counts


class FoundPoints(NamedTuple):
    """What came of a search.

    - `fixed`: points where the dynamics rest, to the tolerance.
    - `slow`: points where they do not, but are slow; at those that a search ended in before it was through,
        they may be slower nearby.
    - `n_lost`: for each member, how many searches ended at neither.
    """

    fixed: FixedPoints
    slow: FixedPoints
    n_lost: Int[np.ndarray, " member"]
