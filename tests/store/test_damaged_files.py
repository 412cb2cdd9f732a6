"""What is stored is read as it was written, or an error names the file: one contract for all kinds."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
import small_shards
from bit_flips import cut_short, flip_bit
from checkpoint_helpers import bits_of, expected_arrays, save_steps

from popsim.store import Checkpoints, load_model, read_sealed_json, save_model, write_sealed_json
from popsim.store.array_group import CommitRecord, open_arrays
from popsim.store.files import CorruptDataError
from popsim.store.growing_arrays import GrowingArrays

RUN_ID, OTHER_RUN = "0" * 32, "f" * 32


@dataclasses.dataclass(frozen=True)
class Stored:
    """A kind of stored object: `write` puts one of a run into a folder, `read` returns its bits.

    `verify` returns the files that are damaged; by default the read is all there is.
    """

    write: Callable[[Path, str], Any]
    read: Callable[[Path], Any]
    verify: Callable[[Path], Any] | None = None


def read_arrays(folder: Path) -> Any:
    dataset = open_arrays(folder / "h.zarr", run_id=RUN_ID)
    return dataset.attrs, {name: dataset[name].values.tobytes() for name in dataset.variables}


def write_arrays(folder: Path, run_id: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("popsim.store.growing_arrays.new_run_id", lambda: run_id)
        small_shards.use_small_shards(patch)
        small_shards.write_small(folder / "h.zarr", 20)


def network() -> eqx.nn.Linear:
    return eqx.nn.Linear(2, 3, key=jax.random.key(0))


KINDS = {
    "arrays": Stored(
        write_arrays, read_arrays, lambda folder: dict(CommitRecord.read(folder / "h.zarr", RUN_ID).damage())
    ),
    "checkpoints": Stored(
        lambda folder, run_id: save_steps(Checkpoints(folder / "checkpoints", run_id=run_id), 1),
        lambda folder: bits_of(
            Checkpoints(folder / "checkpoints", run_id=RUN_ID).restore(expected_arrays, step=1).arrays
        ),
    ),
    "a description": Stored(
        lambda folder, run_id: write_sealed_json(folder / "run.json", {"run": run_id, "number": 1.25}),
        lambda folder: read_sealed_json(folder / "run.json"),
    ),
    "a model": Stored(
        lambda folder, run_id: save_model(folder / "model.safetensors", network()),
        lambda folder: bits_of({"w": load_model(folder / "model.safetensors", network()).weight}),
    ),
}


@pytest.fixture(params=KINDS)
def kind(request) -> Stored:
    return KINDS[request.param]


@pytest.fixture
def folder(kind, tmp_path) -> Path:
    (tmp_path / "one").mkdir()
    kind.write(tmp_path / "one", RUN_ID)
    return tmp_path / "one"


def files_of(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def assert_read_or_named(kind: Stored, folder: Path, damaged: Path, expected: Any) -> bool:
    """Return whether reading was refused; what it gives is as expected, and what it says names the file."""
    try:
        assert kind.read(folder) == expected, damaged
        return False
    except ValueError as error:
        assert damaged.name in str(error) or damaged.parent.name in str(error), (damaged, error)
    if kind.verify is not None:
        try:
            assert kind.verify(folder), damaged
        except ValueError as error:
            assert damaged.name in str(error)
    return True


@pytest.mark.parametrize(("fault", "n_faults"), [(flip_bit, 40), (cut_short, 25), (None, 15)])
def test_a_damaged_file_is_named_or_changes_nothing(kind, folder, fault, n_faults):
    random, expected, refused = np.random.default_rng(0), kind.read(folder), 0
    for _ in range(n_faults):
        file = files_of(folder)[random.integers(len(files_of(folder)))]
        kept = file.read_bytes()
        file.unlink() if fault is None else file.write_bytes(fault(kept, random))
        refused += assert_read_or_named(kind, folder, file, expected)
        file.write_bytes(kept)
    # Nothing that is read depends on the digest of a file.
    assert refused > n_faults // 3
    assert kind.read(folder) == expected


@pytest.mark.parametrize("kind", ["arrays", "checkpoints"], indirect=True)
def test_files_of_another_run_and_swapped_ones_are_named(kind, folder, tmp_path):
    """Each of them is intact in itself."""
    (tmp_path / "other").mkdir()
    kind.write(tmp_path / "other", OTHER_RUN)
    expected, files = kind.read(folder), files_of(folder)
    for file in files:
        kept = file.read_bytes()
        shutil.copy(tmp_path / "other" / file.relative_to(folder), file)
        is_read = file.name.startswith("c.") or file.parent == folder / "h.zarr" or file.suffix != ".json"
        assert assert_read_or_named(kind, folder, file, expected) == is_read, file
        file.write_bytes(kept)
    parts = [file for file in files if file.name.startswith("c.") and file.parent.name == "loss"]
    for one, other in zip(parts, parts[1:], strict=False):
        kept = one.read_bytes(), other.read_bytes()
        one.write_bytes(kept[1]), other.write_bytes(kept[0])
        assert assert_read_or_named(kind, folder, one, expected)
        one.write_bytes(kept[0]), other.write_bytes(kept[1])
    assert kind.read(folder) == expected


@pytest.fixture
def arrays(tmp_path) -> Path:
    write_arrays(tmp_path, RUN_ID)
    return tmp_path / "h.zarr"


def flip_in_table(file: Path) -> None:
    """Flip a bit of the table of chunks, with which a part of an array begins."""
    content = file.read_bytes()
    file.write_bytes(bytes([content[0] ^ 1]) + content[1:])


def test_damage_of_arrays_is_named_when_it_is_read_and_no_earlier(arrays):
    expected = small_shards.expected({"batch": 20, "trainables_batch": 4})
    flip_in_table(arrays / "loss" / "c.1.0.0")
    dataset = open_arrays(arrays)
    np.testing.assert_array_equal(dataset.loss[:6], expected["loss"][:6])
    with pytest.raises(CorruptDataError, match=r"loss/c\.1\.0\.0, a part of the array 'loss', is damaged"):
        dataset.loss.load()
    (arrays / "loss" / "c.2.0.0").unlink()
    assert sorted(small_shards.damage(arrays)) == ["loss/c.1.0.0", "loss/c.2.0.0"]
    assert "loss/c.2.0.0" in small_shards.damage(arrays, every_byte=False)


def test_appending_to_a_damaged_part_is_refused(arrays):
    with pytest.MonkeyPatch.context() as patch:
        small_shards.use_small_shards(patch)
        flip_in_table(arrays / "batch" / "c.3")
        with pytest.raises(CorruptDataError, match=r"batch/c\.3"):
            GrowingArrays.open(arrays).append("batch", small_shards.losses(20, 21))
        store = GrowingArrays.open(arrays)
        store.truncate({"batch": 18, "trainables_batch": 4})
        store.append("batch", small_shards.losses(18, 21))
        store.commit()
    small_shards.assert_holds(arrays, {"batch": 21, "trainables_batch": 4})


def test_older_rows_in_place_of_newer_ones_are_damage(tmp_path):
    """A part as it was at an earlier commit has fewer rows than the record says."""
    store, part, kept = GrowingArrays.create(tmp_path / "h.zarr"), tmp_path / "h.zarr" / "x" / "c.0", []
    for _ in range(2):
        store.append("n", {"x": ((), np.arange(3))})
        store.commit()
        kept.append(part.read_bytes())
    part.write_bytes(kept[0])
    with pytest.raises(CorruptDataError, match=r"x/c\.0, .*must have 6 rows, got 3"):
        open_arrays(tmp_path / "h.zarr").x.load()
