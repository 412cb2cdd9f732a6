"""Figures of networks of several areas."""

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest

from popsim.analysis.figures import draw_area_activity, draw_area_weights
from popsim.networks import AreaRNN, Areas, Sparse

AREAS = {"PMd": np.array([0, 1, 2]), "M1": np.array([3, 4])}


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_units_are_sorted_by_peak_within_their_area(ax):
    hidden = np.zeros((6, 5))
    peaks = [4, -1, 2, 5, 0]
    for unit, time in enumerate(peaks):
        hidden[time, unit] = 1.0 - 2.0 * (unit == 2)
    assert draw_area_activity(ax, hidden, AREAS, dt=0.1) is ax
    shown = np.asarray(ax.images[0].get_array())
    assert np.argmax(np.abs(shown), axis=1).tolist() == [2, 4, 5, 0, 5]
    assert ax.images[0].get_extent() == pytest.approx((0, 0.6, 4.5, -0.5))
    assert [line.get_ydata()[0] for line in ax.lines] == [2.5]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["PMd", "M1"]
    np.testing.assert_allclose(ax.get_yticks(), [1, 3.5])
    assert ax.get_xlabel() == "time (s)" and ax.figure.axes[1].get_ylabel() == "activity"


def test_weights_are_in_blocks_in_the_order_of_areas(ax):
    weights = np.arange(25.0).reshape(5, 5)
    reversed_areas = {"M1": AREAS["M1"], "PMd": AREAS["PMd"]}
    assert draw_area_weights(ax, weights, reversed_areas, limit=30.0) is ax
    order = [3, 4, 0, 1, 2]
    np.testing.assert_array_equal(ax.images[0].get_array(), weights[np.ix_(order, order)])
    assert ax.images[0].get_clim() == (-30, 30)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["M1", "PMd"]
    assert len(ax.lines) == 2 and ax.get_xlabel() == "from area" and ax.get_ylabel() == "to area"


def test_the_groups_of_a_network_are_areas(ax):
    areas = Areas({"one": 6, "two": 4}, connections={("one", "two"): Sparse(0.5)}, excitatory=0.5)
    network = AreaRNN(areas, {"cue": 1}, 1, key=jax.random.key(0))
    groups = network.unit_groups()
    kinds = {name: units for name, units in groups.items() if "itory" in name or "atory" in name}
    draw_area_weights(ax, network.recurrent_weights, kinds)
    assert len(ax.lines) == 6 and not np.any(np.asarray(ax.images[0].get_array())[:6, 6:])
    with pytest.raises(ValueError, match="`areas` must not overlap, got 'one', 'one excitatory'"):
        draw_area_weights(ax, network.recurrent_weights, groups)


@pytest.mark.parametrize(
    ("areas", "message"),
    [
        ({}, "`areas` must be at least one"),
        ({"PMd": np.array([5])}, "`areas` must be numbers of units from 0 to 4"),
        ({"PMd": np.array([], int)}, "`areas` must be numbers of units from 0 to 4"),
    ],
)
def test_areas_that_are_not_of_the_network_are_refused(ax, areas, message):
    with pytest.raises(ValueError, match=message):
        draw_area_weights(ax, np.eye(5), areas)


def test_arrays_of_other_axes_are_refused(ax, as_users_run):
    with pytest.raises(ValueError, match=r"`weights` must have axes \(post, pre\) of the same units"):
        draw_area_weights(ax, np.ones((5, 4)), AREAS)
    with pytest.raises(ValueError, match=r"`hidden` must have axes \(time, unit\)"):
        draw_area_activity(ax, np.ones((1, 5, 4)), AREAS, dt=0.1)
