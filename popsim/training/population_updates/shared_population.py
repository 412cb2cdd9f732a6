"""A population whose members are trained in several trainings, which select among one another."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from popsim._shared.checks import check_callables
from popsim._shared.text_checks import check_path
from popsim.training.population_updates._offers import MEMBERS, SCORES, Offers
from popsim.training.steps.train_state import named_arrays, with_named_arrays

__all__ = ["SharedPopulation"]

SCORE = "score"
ROWS = "members"


@dataclasses.dataclass(frozen=True)
class SharedPopulation:
    """A population that is divided over several trainings, in one process or in several, on any machines.

    Before each selection every training writes the scores of its members, and what others may inherit of
    them, to a file of its own in `folder`. When those of all trainings are there, each computes the same
    selection from all scores, and reads the members that its own descend from. No training waits for another
    process to live: one that is missing may be trained anywhere, later. The result is that of all members in
    one ensemble, bit for bit where their blocks (`member_batch_size`) are of one width and each training has
    two blocks or more.

    Each file says which training of which population wrote it, for which members, and before which batch; and
    its digest is noted when it is written. A file that was damaged, or that came from elsewhere (another
    training, population, selection or sweep), is an error that names it. What a training has offered stays:
    when it is repeated, perhaps with other roundings on another machine, its earlier offer is taken as it is.

    **Arguments:**

    - `folder`: a folder that all trainings see.
    - `part`: the number of this training among them, from 0.
    - `places`: for each training, the places of its members in the population, on which their draws depend.
    - `run_id`: the identity of the population, or of several that share it, such as those of a sweep.
    - `keeps_waiting`: called several times a second with the numbers of the trainings that are not there yet;
        when it returns False the training is saved and ends, to be resumed later.
    - `n_kept`: the number of selections whose files are kept.
    - `population`: the number of the population among those of this identity.
    """

    folder: Path
    part: int
    places: tuple[Int[np.ndarray, " _"], ...]
    run_id: str
    keeps_waiting: Callable[[Sequence[int]], bool] = lambda missing: True
    n_kept: int = 4
    population: int = 0

    def __post_init__(self):
        check_path("folder", self.folder)
        check_callables("keeps_waiting", [self.keeps_waiting])
        if self.n_kept < 2:
            raise ValueError(f"`n_kept` must be at least 2, got {self.n_kept}.")
        if not 0 <= self.part < len(self.places):
            raise ValueError(f"`part` must be 0 to {len(self.places) - 1}, got {self.part}.")
        all_places = np.sort(np.concatenate(self.places))
        if not np.array_equal(all_places, np.arange(all_places.size)):
            raise ValueError(
                f"`places` must be each place of a population once, got {all_places.tolist()!s:.200}."
            )

    @property
    def own_places(self) -> Int[np.ndarray, " member"]:
        """The places of the members of this training."""
        return self.places[self.part]

    @property
    def label(self) -> str:
        """The place of this training in the population, in words."""
        return f"part {self.part} of {len(self.places)}, with members {self.own_places.tolist()!s:.200}"

    def _offers_of(self, part: int) -> Offers:
        return Offers(self.folder, self.run_id, self.population, part, self.places[part], self.n_kept)

    def newest_selection(self, part: int) -> int:
        """Return the batch of the last selection that a training has reached; -1 if none.

        **Raises:** `MismatchError` or `CorruptDataError` naming the list of its selections, if that is of
        another training or damaged.
        """
        return max(self._offers_of(part).complete_selections(), default=-1)

    def has_offered(self, batch: int) -> bool:
        """Return whether this training has written its members for the selection before a batch.

        **Raises:** `MismatchError` or `CorruptDataError` naming a file that is not as it wrote it.
        """
        return self._offers_of(self.part).has_selection(batch)

    def offer(
        self, batch: int, scores: Float[np.ndarray | Array, " member"], rows: PyTree[np.ndarray | Array]
    ) -> None:
        """Write the members of this training for the selection before a batch.

        **Arguments:**

        - `batch`: the batch.
        - `scores`: the scores of the members.
        - `rows`: what others may inherit of them, with a leading member axis.

        **Raises:** `SaveError` if it cannot be written; `CorruptDataError` if it was offered before, is lost,
        and was something else.
        """
        arrays = {SCORES: {SCORE: np.asarray(scores, float)}, MEMBERS: named_arrays(ROWS, rows)}
        self._offers_of(self.part).write(batch, arrays)

    def missing_trainings(self, batch: int, among: Sequence[int] | None = None) -> list[int]:
        """Return the trainings that have not yet reached the selection before a batch.

        **Arguments:**

        - `batch`: the batch.
        - `among`: the trainings to look at; None for all.

        **Raises:** `CorruptDataError` if one has, and its file is gone; also, as `MismatchError`, naming the
        list of its selections, if that is of another training or damaged.
        """
        missing = []
        for part in range(len(self.places)) if among is None else among:
            offers = self._offers_of(part)
            if batch in offers.complete_selections():
                continue
            offers.check_not_past(batch)
            missing.append(part)
        return missing

    def scores(self, batch: int) -> Float[Array, " member"]:
        """Return the scores of the population for the selection before a batch.

        **Raises:** `CorruptDataError` naming a file that is damaged, or not the one that was offered;
        `MismatchError` naming one of another training, population or selection.
        """
        scores = np.empty(sum(places.size for places in self.places))
        for part, places in enumerate(self.places):
            offers = self._offers_of(part)
            offers.check(batch, MEMBERS)  # also where no member descends from them
            form = {SCORE: jax.ShapeDtypeStruct(places.shape, scores.dtype)}
            scores[places] = offers.read(batch, SCORES, form)[SCORE]
        return jnp.asarray(scores)

    @property
    def note(self) -> Path:
        """The list of what this training offered for selections, which it writes before each of them."""
        return self._offers_of(self.part).note

    def damage(self) -> dict[str, str]:
        """Read all that the trainings offered, and return what is wrong, by file; empty if nothing."""
        problems = {}
        for part in range(len(self.places)):
            problems |= self._offers_of(part).damage()
        return problems

    def rows_of(
        self, batch: int, members: Int[np.ndarray, " member"], inherited: PyTree[np.ndarray | Array]
    ) -> PyTree[Array]:
        """Return what is inherited of some members of the population, with a leading member axis.

        **Arguments:**

        - `batch`: the batch of the selection.
        - `members`: their places.
        - `inherited`: what can be inherited of the members of this training.
        """
        mine = named_arrays(ROWS, inherited)
        rows_of_parts: list[Mapping[str, Array]] = []
        order = np.empty(members.size, int)
        n_found = 0
        for part, places in enumerate(self.places):
            (rows_here,) = np.nonzero(np.isin(members, places))
            if not rows_here.size:
                continue
            # Where in its training each of these members is; the places of a training need not be sorted.
            at = np.argsort(places)[np.searchsorted(np.sort(places), members[rows_here])]
            forms = {
                name: jax.ShapeDtypeStruct((places.size, *leaf.shape[1:]), leaf.dtype)
                for name, leaf in mine.items()
            }
            arrays = mine if part == self.part else self._offers_of(part).read(batch, MEMBERS, forms)
            rows_of_parts.append({name: jnp.asarray(arrays[name])[at] for name in mine})
            # Rows are gathered training by training; `order` puts them back into that of `members`.
            order[rows_here] = n_found + np.arange(rows_here.size)
            n_found += rows_here.size
        rows = {name: jnp.concatenate([arrays[name] for arrays in rows_of_parts])[order] for name in mine}
        return with_named_arrays(ROWS, inherited, rows)
