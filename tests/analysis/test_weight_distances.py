"""Distances of known ways: a circle, a straight line, groups."""

import numpy as np
import pytest
import xarray

from popsim.analysis.trainables import change_singular_values, distance_from_start, distance_travelled


def circle(n_rows, radius):
    """Once round, by a member of radius 1 and one of the given radius; starts at (radius, 0)."""
    angles = np.linspace(0, 2 * np.pi, n_rows)
    return np.stack([r * np.stack([np.cos(angles), np.sin(angles)], axis=1) for r in (1.0, radius)], axis=1)


def test_the_way_round_a_circle_is_its_length_and_leads_back():
    history, initial = {"w": circle(2001, 3.0)}, {"w": circle(2, 3.0)[0]}
    measures = (distance_travelled, distance_from_start)
    travelled, away = (measure(history, initial=initial)["w"] for measure in measures)
    np.testing.assert_allclose(travelled.absolute[-1], [2 * np.pi, 6 * np.pi], rtol=1e-6)
    np.testing.assert_allclose(travelled.relative[-1], 2 * np.pi, rtol=1e-6)
    np.testing.assert_allclose(away.absolute[[0, 1000, 2000]], [[0, 0], [2, 6], [0, 0]], atol=1e-12)
    np.testing.assert_allclose(away.relative[1000], 2.0)
    n_sides = distance_travelled({"w": circle(7, 3.0)}, initial=initial)["w"].absolute[-1]
    np.testing.assert_allclose(n_sides, [6, 18])  # a hexagon: what is between rows is taken as straight


def test_on_a_straight_line_both_are_the_same_and_groups_add_in_squares():
    steps = np.arange(5.0)[:, None]
    history = {"a": 3 * steps[..., None] + np.ones((1, 2, 1)), "b": -4 * steps + np.zeros((1, 2))}
    start = {"groups": {"both": ["a", "b"], "a": ["a"]}, "initial": {"a": np.ones((2, 1)), "b": np.zeros(2)}}
    travelled, away = distance_travelled(history, **start), distance_from_start(history, **start)
    np.testing.assert_allclose(travelled["both"].absolute, 5 * steps * np.ones(2))
    np.testing.assert_allclose(away["both"].absolute, travelled["both"].absolute)
    np.testing.assert_allclose(travelled["a"].absolute, 3 * steps * np.ones(2))
    of_each = distance_from_start(history, initial=start["initial"])
    assert np.all(np.isnan(of_each["b"].relative))  # began at zero


def test_a_history_that_begins_after_training_did_needs_what_it_began_with():
    """Or the distance would be that since its first row, which is less."""
    data = xarray.DataArray(
        np.arange(12.0).reshape(3, 2, 2, 1) + 1,
        dims=("trainables_batch", "member", "row", "column"),
        coords={"trainables_batch": [99, 199, 299]},
    )
    late, in_memory = xarray.Dataset({"trainables.w": data}), {"w": data.values}
    untold = "of a batch that it does not tell"
    for history, row in ((late, "after batch 99"), (in_memory, untold)):
        for measure in (distance_from_start, distance_travelled):
            with pytest.raises(ValueError, match=f"`initial` must be given.* first row {row}"):
                measure(history)
        (array,) = history.values()
        with pytest.raises(ValueError, match=f"`initial` must be given.* first row {row}"):
            change_singular_values(array)
    model = {"w": np.zeros((2, 2, 1))}
    np.testing.assert_allclose(distance_from_start(late, initial=model)["w"].absolute[0], [5**0.5, 5.0])
    whole = late.assign_coords(trainables_batch=[-1, 99, 199])
    assert np.all(distance_from_start(whole)["w"].absolute[0] == 0)
