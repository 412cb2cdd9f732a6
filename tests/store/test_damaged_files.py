import numpy as np
import pytest
import small_shards
import stored_faults

from popsim.store.arrays import _layout as chunk_shapes
from popsim.store.arrays.growing_arrays import GrowingArrays
from popsim.store.arrays.inspection import open_arrays, verify_arrays
from popsim.store.files import CorruptDataError


@pytest.fixture
def stored(monkeypatch, tmp_path):
    """A small history of many files, and what it holds."""
    monkeypatch.setattr(chunk_shapes, "SHARD_ROWS", small_shards.SHARD_ROWS)
    monkeypatch.setattr(chunk_shapes, "CHUNK_ROWS", small_shards.CHUNK_ROWS)
    lengths = small_shards.write_small(tmp_path / "h.zarr", 20)
    return tmp_path / "h.zarr", small_shards.expected(lengths), small_shards.ATTRIBUTES


def test_no_flipped_bit_is_read_silently(stored):
    path, expected, attributes = stored
    found = stored_faults.outcomes(path, stored_faults.bit_flips(path, 200, 0), expected, attributes)
    assert found["wrong"] == found["unnamed"] == found["unverified"] == 0, found
    assert found["named"] > 150
    assert verify_arrays(path) == []


@pytest.mark.full
def test_every_bit_of_the_metadata_matters_or_does_not(stored):
    path, expected, attributes = stored
    random = np.random.default_rng(0)
    for file in (path / "zarr.json", path / "loss" / "zarr.json", path / "scale" / "zarr.json"):
        bits = random.choice(8 * file.stat().st_size, 150, replace=False)
        faults = ((file, lambda file=file, bit=bit: stored_faults.flip(file, int(bit))) for bit in bits)
        found = stored_faults.outcomes(path, faults, expected, attributes)
        assert found["wrong"] == found["unnamed"] == found["unverified"] == 0, (file, found)


def test_every_missing_file_is_named(stored):
    path, expected, attributes = stored
    found = stored_faults.outcomes(path, stored_faults.deletions(path), expected, attributes)
    assert set(found) <= {"named", "unverified"} and found["unverified"] == 0, found
    assert found["named"] == len(stored_faults.files_of(path)) > 20


@pytest.mark.full
def test_every_file_that_was_cut_off_is_named(stored):
    path, expected, attributes = stored
    found = stored_faults.outcomes(path, stored_faults.cuts(path, 100, 0), expected, attributes)
    assert found["named"] == 100 and found["unverified"] == 0, found


def test_damage_is_named_when_it_is_read_and_no_earlier(stored):
    path, expected, _ = stored
    file = path / "loss" / "c.1.0.0"
    stored_faults.flip(file, 100)
    dataset = open_arrays(path)
    np.testing.assert_array_equal(dataset.loss[:6], expected["loss"][:6])
    np.testing.assert_array_equal(dataset["learning rate"], expected["learning rate"])
    with pytest.raises(CorruptDataError, match=r"loss/c\.1\.0\.0, a part of the array 'loss', is damaged"):
        dataset.loss.load()
    file.unlink()
    with pytest.raises(CorruptDataError, match=r"there must be a file .*loss/c\.1\.0\.0.* missing"):
        dataset.loss[7].load()


def test_all_damaged_files_are_listed(stored):
    path, _, _ = stored
    stored_faults.flip(path / "loss" / "c.1.0.0", 100)
    (path / "loss" / "c.2.0.0").unlink()
    (path / "batch" / "zarr.json").unlink()
    assert sorted(verify_arrays(path)) == ["batch/zarr.json", "loss/c.1.0.0", "loss/c.2.0.0"]


def test_appending_after_damage_is_refused(stored):
    path, _, _ = stored
    file = path / "batch" / "c.3"
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(CorruptDataError, match=r"batch/c\.3"):
        GrowingArrays.open(path)
    file.write_bytes(content)
    stored_faults.flip(file, 0)
    store = GrowingArrays.open(path)
    with pytest.raises(CorruptDataError, match=r"batch/c\.3"):
        store.append("batch", small_shards.losses(20, 21))
    store = GrowingArrays.open(path)
    store.truncate({"batch": 18, "trainables_batch": 4})
    store.append("batch", small_shards.losses(18, 21))
    store.commit()
    small_shards.assert_holds(path, {"batch": 21, "trainables_batch": 4})


@pytest.mark.parametrize("length", [19, 999])
def test_the_length_is_that_of_the_commit(length, stored):
    """Not that in the description of one array, which a writer brings up to date at another moment."""
    path, expected, _ = stored
    file = path / "loss" / "zarr.json"
    file.write_text(file.read_text().replace("20,", f"{length},", 1))
    np.testing.assert_array_equal(open_arrays(path).loss, expected["loss"])
