"""What one training of a shared population offers to the others before each selection, as files."""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Int

from popsim.store import Checkpoints, CorruptDataError, MismatchError, read_sealed_json, write_sealed_json
from popsim.store.files import make_folder, saving

SCORES, MEMBERS = KINDS = ("scores", "members")
OFFERS = "offers"
BEGIN_AGAIN = (
    "If it cannot be restored, all of its population must begin again: remove that folder and theirs."
)

Arrays = Mapping[str, np.ndarray | Array]
Digests = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Offers:
    """The files of one training in the folder of a shared population.

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
        try:
            offers = {int(batch): dict(digests) for batch, digests in described[OFFERS].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptDataError(f"{self.note} must list what was offered: {error!r:.200}") from None
        if not all(set(digests) == set(KINDS) for digests in offers.values()):
            raise CorruptDataError(f"{self.note} must list {' and '.join(KINDS)} of each selection.")
        return offers

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
        """Check all bytes of a file; errors as `check`."""
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
        """Return the arrays of a file; errors as `check`."""
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
