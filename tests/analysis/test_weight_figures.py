"""Figures of weights and their change."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from popsim.analysis.figures import (
    animate_weight_matrix,
    draw_change_spectrum,
    draw_loss_line,
    draw_recurrent_eigenvalues,
    draw_weight_history,
    draw_weight_matrix,
    save_animation,
)


@pytest.fixture
def ax():
    figure, ax = plt.subplots(figsize=(1, 1), dpi=50)
    yield ax
    plt.close(figure)


def test_a_weight_matrix_has_symmetric_limits(ax):
    assert draw_weight_matrix(ax, np.array([[1.0, -3.0], [0.0, 2.0]])) is ax
    assert ax.images[0].get_clim() == (-3, 3) and ax.get_ylabel() == "to unit"
    draw_weight_matrix(ax, np.zeros((2, 2)), limit=0.5)
    assert ax.images[1].get_clim() == (-0.5, 0.5)


def test_a_history_has_the_median_and_a_band_of_all_members(ax):
    values = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 9.0], [2.0, 4.0, 8.0]])
    assert draw_weight_history(ax, np.array([-1, 9, 99]), values, label="recurrent") is ax
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [[10, 2], [100, 4]])
    low, high = ax.collections[0].get_paths()[0].vertices[:, 1].min(), 9
    assert low == 1 and ax.collections[0].get_paths()[0].vertices[:, 1].max() == high
    assert ax.get_xscale() == "log" and ax.get_ylim()[0] == 0


def test_a_member_without_a_number_does_not_take_the_others_along(ax):
    values = np.array([[1.0, np.nan, 3.0], [2.0, np.nan, 6.0]])
    draw_weight_history(ax, np.array([9, 99]), values, label="readout")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [2, 4])


def test_an_animation_shows_each_batch_with_the_same_colours_and_is_written(ax, tmp_path, as_users_run):
    weights = np.random.default_rng(0).normal(size=(3, 2, 2))
    animation = animate_weight_matrix(ax, np.array([-1, 9, 19]), weights)
    path = save_animation(animation, tmp_path / "weights.gif", frames_per_second=5)
    with Image.open(path) as film:
        assert film.n_frames == 3
    np.testing.assert_array_equal(ax.images[0].get_array(), weights[-1])
    assert ax.images[0].get_clim()[1] == np.abs(weights).max() and ax.get_title() == "after batch 19"
    with pytest.raises(ValueError, match="`path` must end with .gif"):
        save_animation(animation, tmp_path / "weights.avi")
    with pytest.raises(ValueError, match="`batch`"):
        animate_weight_matrix(ax, np.arange(2), weights)


def test_eigenvalues_are_where_they_are_with_the_unit_circle(ax):
    values = np.array([[1 + 1j, 1 - 1j], [0.5, -0.5]])
    assert draw_recurrent_eigenvalues(ax, np.array([-1, 99]), values) is ax
    np.testing.assert_allclose(ax.collections[0].get_offsets(), [[1, 1], [1, -1], [0.5, 0], [-0.5, 0]])
    assert ax.patches[0].radius == 1 and ax.get_aspect() == 1
    np.testing.assert_array_equal(np.ravel(ax.collections[0].get_array()), [1, 1, 100, 100])


def test_a_spectrum_is_of_shares_and_beside_the_null(ax):
    assert draw_change_spectrum(ax, np.array([[2.0, 1.0], [3.0, 0.0]]), np.ones((4, 2))) is ax
    null, first, second = ax.lines
    np.testing.assert_allclose(null.get_ydata(), 0.5)
    np.testing.assert_allclose(first.get_xydata(), [[1, 0.8], [2, 0.2]])
    np.testing.assert_allclose(second.get_ydata(), [1.0, 0.0])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "Gaussian matrices, same shape",
        "members",
    ]


def test_the_ends_of_a_line_are_named(ax):
    positions, loss = np.array([0.0, 1.0, 2.0]), np.array([[1.0, 2.0]] * 3)
    assert draw_loss_line(ax, positions, loss, ends=("before", "after")) is ax
    assert [text.get_text() for text in ax.texts] == ["before", "after"]
    np.testing.assert_allclose(ax.lines[1].get_ydata(), 2.0)
