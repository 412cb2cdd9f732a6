"""What users give by mistake to analyses, and what they are told."""

import numpy as np
import pytest
import xarray

from popsim.analysis import behaviour, learning, trainables
from popsim.analysis.figures import draw_state_space

pytestmark = pytest.mark.usefixtures("as_users_run")  # shapes are not checked by their annotations
POSITION = np.random.default_rng(0).normal(size=(3, 4, 10, 2))  # (member, trial, time, space)
STARTS, TARGETS = np.zeros((4, 2)), np.ones((4, 10, 2))


def test_targets_at_all_times_instead_of_the_last():
    with pytest.raises(ValueError, match=r"`targets` must be a place .* `targets.position\[:, -1\]`"):
        behaviour.maximum_perpendicular_deviation(POSITION, STARTS, TARGETS)
    with pytest.raises(ValueError, match="`starts` must be a place"):
        behaviour.maximum_perpendicular_deviation(POSITION, TARGETS, TARGETS[:, -1])


def test_time_last_instead_of_the_plane():
    with pytest.raises(ValueError, match="`position` must have a last axis of x and y"):
        behaviour.curvature(np.swapaxes(POSITION, -1, -2))


def test_a_number_instead_of_a_threshold():
    with pytest.raises(ValueError, match=r"`threshold` must be FractionOfPeak\(0.05\) or FixedSpeed"):
        behaviour.movement_onset(np.abs(POSITION[..., 0]), 0.05, dt=0.01)


def test_losses_by_term_instead_of_their_sum():
    terms = xarray.DataArray(np.ones((5, 3, 2)), dims=("batch", "member", "term"))
    with pytest.raises(ValueError, match=r"`loss` must have axes \(batch, member\)"):
        learning.learning_curve(terms)
    with pytest.raises(ValueError, match=r"`loss` must have axes \(batch, member\)"):
        learning.learning_curve(terms[..., 0].transpose("member", "batch"))


def test_the_weights_of_an_ensemble_instead_of_a_history():
    with pytest.raises(ValueError, match=r"`weights` must have axes .* `weights\[None\]`"):
        trainables.spectral_radius(np.ones((5, 12, 4)))


def test_directions_of_other_trials(ax):
    with pytest.raises(ValueError, match="`direction` must be of 4 trials"):
        draw_state_space(ax, POSITION[0], direction=np.zeros(3))
