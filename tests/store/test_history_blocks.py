"""Histories larger than memory: no more than a block is read at once, and the numbers are the same."""

import numpy as np
import pytest

from popsim.analysis import trainables
from popsim.analysis.trainables import trainable_arrays as block_module
from popsim.store import GrowingArrays
from popsim.training import open_history

SHAPE = (11, 4, 6, 5)  # batch, member, row, column
ONE = 8 * 6 * 5  # bytes of one row of one member


class Counting:
    """An array that notes how many bytes of float64 each reading takes."""

    def __init__(self, values):
        self.values, self.shape, self.dtype, self.read = values, values.shape, values.dtype, []

    def __getitem__(self, key):
        found = self.values[key]
        self.read.append(8 * found.size)
        return found


@pytest.fixture
def weights():
    return np.random.default_rng(0).normal(size=SHAPE)


@pytest.mark.parametrize("overlap", [0, 1])
@pytest.mark.parametrize("n_bytes", [1, 3 * ONE, 9 * ONE, 10**6])
def test_blocks_cover_everything_once_and_stay_within_the_bytes(weights, overlap, n_bytes):
    seen, counting = np.zeros(SHAPE[:2], int), Counting(weights)
    for block in block_module.blocks(counting, overlap=overlap, n_bytes=n_bytes):
        np.testing.assert_array_equal(block.values, weights[block.rows, block.members])
        assert block.values.shape[0] > overlap
        seen[block.rows.start : block.rows.stop - overlap, block.members] += 1
    assert np.all(seen[: SHAPE[0] - overlap] == 1)
    assert max(counting.read) <= max(n_bytes, (overlap + 1) * ONE)
    assert n_bytes < 10**6 or len(counting.read) == 1


def measures(weights):
    history, start = {"w": weights}, np.asarray(weights[0])
    modes = trainables.final_modes(weights, 2)
    return [
        trainables.distance_travelled(history, initial={"w": start})["w"].absolute,
        trainables.distance_from_start(history, initial={"w": start})["w"].relative,
        trainables.change_singular_values(weights, initial=start),
        trainables.mode_strengths(weights, modes.left, modes.right),
        trainables.recurrent_eigenvalues(weights[..., :5, :] if isinstance(weights, np.ndarray) else weights),
    ]


def test_every_measure_reads_blocks_and_gives_the_numbers_of_the_whole(weights, monkeypatch):
    square = weights[..., :5, :]
    whole = measures(square)
    budget = 3 * 8 * 25
    monkeypatch.setattr(block_module, "BLOCK_BYTES", budget)
    counting = Counting(square)
    in_blocks = measures(counting)
    for one, other in zip(whole, in_blocks, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    row_of_all = 8 * square[0].size  # what one row is compared with
    assert max(counting.read) <= max(budget, row_of_all) and len(counting.read) > 5 * 15


def test_a_history_on_disk_is_measured_as_that_in_memory(weights, tmp_path):
    axes = ("member", "row", "column")
    store = GrowingArrays.create(tmp_path / "history")
    rows = {"trainables_batch": ((), np.arange(-1, 10)), "trainables.layer.w": (axes, weights)}
    store.append("trainables_batch", rows)
    store.commit()
    (saved,) = trainables.distance_travelled(open_history(tmp_path / "history")).items()
    kept = trainables.distance_travelled({"layer.w": weights}, initial={"layer.w": weights[0]})["layer.w"]
    assert saved[0] == "layer.w"
    np.testing.assert_array_equal(saved[1].absolute, kept.absolute)
    with pytest.raises(ValueError, match="`history` must hold trainables"):
        trainables.distance_travelled(open_history(tmp_path / "history")[[]])


def test_a_model_has_arrays_by_name_and_can_be_given_others():
    model = {"layer": {"w": np.ones(3), "name": "a"}, "bias": np.zeros(2)}
    assert trainables.arrays_by_name(model).keys() == {"layer.w", "bias"}
    other = trainables.with_arrays(model, {"layer.w": np.full(3, 2.0)})
    assert other["layer"]["w"][0] == 2 and other["layer"]["name"] == "a" and model["layer"]["w"][0] == 1
    with pytest.raises(ValueError, match="must be of the model.*'nothing'"):
        trainables.with_arrays(model, {"nothing": np.ones(3)})
