"""Demixed components against the package dPCA, and of planted activity."""

import demixed_reference
import numpy as np
import pytest

from popsim.analysis.neural_activity import average_by_factors, demixed_components, marginalize


def reference_activity():
    """The activity of the reference, each cell as two trials about its mean, and the factors."""
    unit_last = np.moveaxis(demixed_reference.activity(), 0, -1).reshape(8, 6, 7)
    apart = np.random.default_rng(0).normal(size=unit_last.shape)
    stimulus, choice = np.divmod(np.arange(8), 2)
    activity = np.concatenate([unit_last + apart, unit_last - apart])[None]
    return activity, {"stimulus": np.tile(stimulus, 2), "choice": np.tile(choice, 2)}


@pytest.mark.parametrize("regularization", demixed_reference.REGULARIZATION)
def test_components_are_those_of_the_reference_package(regularization):
    activity, factors = reference_activity()
    found = demixed_components(activity, factors, regularization=regularization)
    mean = demixed_reference.activity().reshape(7, -1)
    total = np.sum((mean - mean.mean(axis=1, keepdims=True)) ** 2)
    for name, (encoder, decoder, read) in demixed_reference.EXPECTED[regularization].items():
        sign = np.sign(found[name].encoder[0, 0] @ encoder)
        np.testing.assert_allclose(sign * found[name].encoder[0, 0], encoder, atol=2e-6)
        np.testing.assert_allclose(sign * found[name].decoder[0, 0], decoder, atol=2e-5)
        np.testing.assert_allclose(np.sum(found[name].projections[..., 0] ** 2) / total, read, atol=1e-8)


def test_parts_sum_up_to_the_activity_and_do_not_overlap():
    activity, factors = reference_activity()
    mean = average_by_factors(activity, factors)
    parts = marginalize(mean, tuple(factors))
    assert list(parts) == ["time", "stimulus", "choice", "stimulus x choice"]
    np.testing.assert_allclose(
        sum(parts.values()), mean - mean.mean(axis=(1, 2, 3), keepdims=True), atol=1e-12
    )
    flat = np.stack([part.reshape(-1, 7) for part in parts.values()])
    overlap = np.einsum("asu,bsv->abuv", flat, flat)
    np.testing.assert_allclose(overlap[~np.eye(4, dtype=bool)], 0.0, atol=1e-9)


def test_planted_components_are_demixed():
    """Two directions of units that are not at right angles: one follows time, one the stimulus."""
    time, level = np.linspace(-1, 1, 9)[:, None], np.array([-1.0, 0.0, 1.0])[:, None, None]
    of_time, of_level = np.array([1.0, 0, 0, 0]), np.array([0.8, 0.6, 0, 0])
    activity = (time * of_time + level * of_level)[None]
    found = demixed_components(activity, {"stimulus": np.arange(3)}, n_components=1, regularization=0.0)
    for name, direction in (("time", of_time), ("stimulus", of_level)):
        np.testing.assert_allclose(np.abs(found[name].encoder[0, 0]), direction, atol=1e-9)
    other = found["stimulus"].projections[0, ..., 0]
    np.testing.assert_allclose(np.ptp(other, axis=1), 0.0, atol=1e-9)  # knows nothing of time
    np.testing.assert_allclose(np.abs(other[:, 0]), [1, 0, 1], atol=1e-9)
    np.testing.assert_allclose(found["stimulus"].explained_by_part["time"], 0.0, atol=1e-9)
    power = np.array([np.mean(time**2), 2 / 3])
    np.testing.assert_allclose(
        [found["time"].fraction[0], found["stimulus"].fraction[0]], power / power.sum()
    )
    np.testing.assert_allclose(found["stimulus"].explained[0, 0], power[1] / power.sum())


@pytest.mark.parametrize(
    ("factors", "name"),
    [
        ({}, "factors"),
        ({"direction": np.zeros(4)}, "factors\\['direction'\\]"),
        ({"direction": np.arange(3)}, "factors\\['direction'\\]"),
        ({"a": np.array([0, 0, 1, 1]), "b": np.array([0, 0, 0, 1])}, "factors"),
    ],
)
def test_factors_that_do_not_fit_are_refused(as_users_run, factors, name):
    with pytest.raises(ValueError, match=name):
        demixed_components(np.ones((1, 4, 3, 5)), factors)
