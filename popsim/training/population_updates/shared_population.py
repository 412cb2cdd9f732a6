"""A population whose members are trained in several trainings, which select among one another."""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from popsim._shared.checks import check_callables
from popsim._shared.text_checks import check_path
from popsim.store import Checkpoints, CorruptDataError, MismatchError, read_sealed_json, write_sealed_json
from popsim.store.files import make_folder, saving
from popsim.training.steps.train_state import named_arrays, with_named_arrays

__all__ = ["SharedPopulation"]

SCORES, MEMBERS = KINDS = ("scores", "members")
OFFERS = "offers"
SCORE = "score"
ROWS = "members"
BEGIN_AGAIN = (
    "If it cannot be restored, all of its population must begin again: remove that folder and theirs."
)

Arrays = Mapping[str, np.ndarray | Array]
Digests = dict[str, str]


@dataclasses.dataclass(frozen=True)
class SharedPopulation:
    """A population that is divided over several trainings, in one process or in several, on any machines.

    Before each selection every training writes the scores of its members, and what others may inherit of
    them, to a file of its own in `folder`. When those of all trainings are there, each computes the same
    selection from all scores, and reads the members that its own descend from. No training waits for another
    process to live: one that is missing may be trained anywhere, later. The result is that of all members in
    one ensemble, bit for bit where their blocks (`member_batch_size`) are of one width and each training has
    two blocks or more.

    A file that was damaged is a `CorruptDataError` that names it, and one from elsewhere (another training,
    population, selection or sweep) a `MismatchError`. What a training has offered stays: when it is repeated,
    perhaps with other roundings on another machine, its earlier offer is taken as it is.

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

    def _offers_of(self, part: int) -> "_Offers":
        return _Offers(self.folder, self.run_id, self.population, part, self.places[part], self.n_kept)

    def newest_selection(self, part: int) -> int:
        """Return the batch of the last selection that a training has reached; -1 if none."""
        return max(self._offers_of(part).complete_selections(), default=-1)

    def has_offered(self, batch: int) -> bool:
        """Return whether this training has written its members for the selection before a batch."""
        return self._offers_of(self.part).has_selection(batch)

    def offer(
        self, batch: int, scores: Float[np.ndarray | Array, " member"], rows: PyTree[np.ndarray | Array]
    ) -> None:
        """Write the scores of the members of this training, and what others may inherit of them, as rows."""
        arrays = {SCORES: {SCORE: np.asarray(scores, float)}, MEMBERS: named_arrays(ROWS, rows)}
        self._offers_of(self.part).write(batch, arrays)

    def missing_trainings(self, batch: int, among: Sequence[int] | None = None) -> list[int]:
        """Return the trainings, among some or all, that have not reached the selection before a batch yet."""
        missing = []
        for part in range(len(self.places)) if among is None else among:
            offers = self._offers_of(part)
            if batch in offers.complete_selections():
                continue
            offers.check_not_past(batch)
            missing.append(part)
        return missing

    def scores(self, batch: int) -> Float[Array, " member"]:
        """Return the scores of the population for the selection before a batch."""
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
        """Return what is inherited of the members at some places; `inherited` is that of this training."""
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


@dataclasses.dataclass(frozen=True)
class _Offers:
    """What one training of a shared population offers to the others before each selection, as files.

    `NUMBER-scores/` and `NUMBER-members/` have a file for each of the last selections; `NUMBER.json` lists
    these selections with the digests of both files. It is written last, so a selection that it lists is
    complete, and what was used once cannot be exchanged for something else. Each file says which training of
    which population wrote it, for which members, what it holds, and before which batch.
    """

    folder: Path
    run_id: str
    population: int
    part: int
    places: Int[np.ndarray, " member"]
    n_kept: int

    @property
    def note(self) -> Path:
        """The list of the selections for which there are files."""
        return self.folder / f"{self.part:06d}.json"

    @property
    def owner(self) -> dict[str, str | int]:
        """What the files belong to."""
        places = np.ascontiguousarray(self.places, "<i8").tobytes()
        members = f"{self.places.size} members ({hashlib.sha256(places).hexdigest()[:16]})"
        return {"population": self.population, "part": self.part, "members": members}

    def files(self, kind: str) -> Checkpoints:
        """Return the files of a kind, by the batches of the selections."""
        return Checkpoints(
            self.folder / f"{self.part:06d}-{kind}",
            n_kept=self.n_kept + 1,  # all that is listed is there also while the next one is written
            run_id=self.run_id,
            belongs_to={**self.owner, "content": kind},
        )

    def read_digests(self) -> dict[int, Digests]:
        """Return the digests of the files of each selection, by its batch; empty before the first one."""
        if not os.path.lexists(self.note):
            return {}
        described = read_sealed_json(self.note)
        for name, expected in {"run_id": self.run_id, **self.owner}.items():
            if described.get(name) != expected:
                raise MismatchError(
                    f"{self.note} must be of {name} {expected}, got {str(described.get(name)):.100}."
                )
        return {int(batch): digests for batch, digests in described[OFFERS].items()}

    def complete_selections(self) -> list[int]:
        """Return the batches of the selections whose files are all present, ascending."""
        noted = self.read_digests()
        return sorted(set(noted).intersection(*(self.files(kind).steps() for kind in KINDS)))

    def check_not_past(self, batch: int) -> None:
        """Check that the training has not continued past the selection before a batch without its files.

        A network file system may show the list before the files that it names, but no file of a folder
        before an earlier one of the same folder.
        """
        batches = sorted(self.read_digests())
        if batch in batches:
            for kind in KINDS:
                if max(self.files(kind).steps(), default=-1) > batch:
                    self._offered_files(batch, kind)
        elif max(batches, default=-1) > batch:
            raise CorruptDataError(
                f"the selection before batch {batch} cannot be repeated: part {self.part} of {self.folder} "
                f"has the members of batches {', '.join(map(str, batches))} only. {BEGIN_AGAIN}"
            )

    def check(self, batch: int, kind: str) -> None:
        """Check that a file is the one that was noted, without reading its arrays."""
        self._check_digest(batch, kind, self._offered_files(batch, kind).check(batch))

    def verify(self, batch: int, kind: str) -> None:
        """Check all bytes of a file."""
        self.check(batch, kind)
        self.files(kind).verify(batch)

    def damage(self) -> dict[str, str]:
        """Read all files, and return what is wrong, by file; empty if nothing."""
        try:
            noted = self.read_digests()
        except ValueError as error:
            return {self.note.name: str(error)}
        problems = {}
        for kind in KINDS:
            files = self.files(kind)
            for batch in sorted({*noted, *files.steps()}):
                try:
                    if batch in noted:
                        self.verify(batch, kind)
                    else:
                        files.verify(batch)
                except ValueError as error:
                    if batch in files.steps() or batch in self.read_digests():  # or it was removed meanwhile
                        problems[f"{files.path.name}/{batch:09d}.safetensors"] = str(error)
        return problems

    def read(self, batch: int, kind: str, forms: Mapping[str, jax.ShapeDtypeStruct]) -> Arrays:
        """Return the arrays of a file, which is checked."""
        checkpoint = self._offered_files(batch, kind).restore(lambda details: forms, step=batch)
        assert checkpoint is not None  # or it is an error that there is none
        self._check_digest(batch, kind, checkpoint.digest)
        return checkpoint.arrays

    def _offered_files(self, batch: int, kind: str) -> Checkpoints:
        files = self.files(kind)
        if batch not in files.steps():
            raise CorruptDataError(
                f"{files.path} must have the {kind} of part {self.part} before batch {batch}, which were "
                f"offered; they are missing. {BEGIN_AGAIN}"
            )
        return files

    def _check_digest(self, batch: int, kind: str, digest: str) -> None:
        digests = self.read_digests().get(batch)
        if digests is None:
            raise CorruptDataError(f"{self.note} must list the selection before batch {batch}; it does not.")
        if digest != digests[kind]:
            raise CorruptDataError(
                f"{self.files(kind).file(batch)} must be as it was offered, with the digest in "
                f"{self.note.name}; it is another file, or was changed. {BEGIN_AGAIN}"
            )

    def has_selection(self, batch: int) -> bool:
        """Whether this training has offered its members for a selection, in files as they were written."""
        is_noted = batch in self.read_digests()
        present = [kind for kind in KINDS if batch in self.files(kind).steps()]
        for kind in present:
            if is_noted:
                self.verify(batch, kind)
            else:
                with contextlib.suppress(CorruptDataError):  # of a killed process: written again
                    self.files(kind).check(batch)
        return is_noted and len(present) == len(KINDS)

    def write(self, batch: int, arrays: Mapping[str, Arrays]) -> None:
        """Write the arrays of each kind for a selection; files that were noted and are present stay."""
        with saving(self.folder):
            make_folder(self.folder, parents=True)
        noted = self.read_digests()
        digests: Digests = {}
        # The files are complete, and checked, before the list names them: what it lists exists.
        for kind in reversed(KINDS):
            files = self.files(kind)
            if batch in noted and batch in files.steps():
                continue
            files.save(batch, arrays[kind], {})
            files.wait()
            digests[kind] = files.check(batch)
            if batch in noted and digests[kind] != noted[batch][kind]:
                path = files.file(batch)
                path.unlink()
                raise CorruptDataError(
                    f"there must be a file {path}, which was offered; it is missing, and what was computed "
                    f"again differs from it. {BEGIN_AGAIN}"
                )
        if batch not in noted:
            self._note({**noted, batch: digests}, batch)

    def _note(self, offers: Mapping[int, Digests], newest: int) -> None:
        """Write the list of the selections whose files are kept."""
        before = [batch for batch in sorted(offers) if batch <= newest][-self.n_kept :]
        # Later ones are of a training that was resumed from an earlier checkpoint; it will come to them
        # again, and must offer the same.
        listed = [*before, *(batch for batch in sorted(offers) if batch > newest)]
        described: dict[str, Any] = {"run_id": self.run_id, **self.owner}
        write_sealed_json(self.note, {**described, OFFERS: {str(batch): offers[batch] for batch in listed}})
