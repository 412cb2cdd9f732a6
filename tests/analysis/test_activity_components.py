"""Components, dimensions and alignment of planted activity, and demixed ones against the package dPCA."""

from pathlib import Path

import jax
import numpy as np
import pytest

from popsim.analysis.neural_activity import (
    alignment_index,
    demixed_components,
    n_components_for,
    participation_ratio,
    principal_components,
    random_alignment,
    soft_normalize,
    subtract_condition_mean,
)

RANDOM = np.random.default_rng(0)
BASIS = np.linalg.qr(RANDOM.normal(size=(5, 5)))[0]


def planted(*deviations: float) -> np.ndarray:
    """One member whose activity has these standard deviations along the first directions of `BASIS`."""
    samples = RANDOM.normal(size=(60, len(deviations)))
    latent = np.linalg.qr(samples - samples.mean(axis=0))[0] * np.sqrt(60) * deviations
    return (latent @ BASIS[: len(deviations)] + 3.0).reshape(1, 6, 10, 5)


def test_planted_components_are_found_with_their_variance():
    activity = np.concatenate([planted(2.0, 1.0), planted(3.0, 0.5)])
    found = principal_components(activity, n_components=2)
    np.testing.assert_allclose(found.variance, [[4, 1], [9, 0.25]])
    np.testing.assert_allclose(found.explained, [[0.8, 0.2], [9 / 9.25, 0.25 / 9.25]])
    np.testing.assert_allclose(np.abs(found.components @ BASIS[:2].T), [np.eye(2)] * 2, atol=1e-9)
    np.testing.assert_allclose(found.mean, 3.0)
    back = found.projections @ found.components[:, None] + 3.0
    np.testing.assert_allclose(back, activity)
    assert (np.sum(found.projections**3, axis=(1, 2)) > 0).all()
    part = found.projections[:, :2, 3:]
    np.testing.assert_allclose(found.project(activity[:, :2, 3:]), part, atol=1e-12)  # another epoch


def test_dimensions_of_planted_variances():
    activity = np.concatenate([planted(2.0, 1.0), planted(1.0, 1.0)])
    np.testing.assert_allclose(participation_ratio(activity), [25 / 17, 2.0])
    assert n_components_for(activity, 0.8).tolist() == [1, 2]
    assert n_components_for(activity, 0.81).tolist() == [2, 2]


def test_soft_normalization_divides_by_the_range_and_the_constant():
    activity = np.array([[0.0, 0.0], [10.0, 0.0], [5.0, 1.0]]).reshape(1, 1, 3, 2)
    np.testing.assert_allclose(np.ptp(soft_normalize(activity, constant=5.0), axis=2)[0, 0], [10 / 15, 1 / 6])
    np.testing.assert_allclose(np.ptp(soft_normalize(activity, constant=0.0), axis=2)[0, 0], 1.0)


def test_what_conditions_share_is_subtracted():
    shared, own = RANDOM.normal(size=(2, 1, 4, 3)), RANDOM.normal(size=(2, 6, 1, 3))
    left = subtract_condition_mean(shared + own)
    np.testing.assert_allclose(left, np.broadcast_to(own - own.mean(axis=1, keepdims=True), left.shape))


DIRECTIONS = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]


def epoch(directions: np.ndarray, deviations: list[float]) -> np.ndarray:
    """One member with these standard deviations along directions of units."""
    samples = np.random.default_rng(1).normal(size=(60, len(deviations)))
    latent = np.linalg.qr(samples - samples.mean(axis=0))[0] * np.sqrt(60) * deviations
    return (latent @ directions).reshape(1, 6, 10, 8)


def test_the_same_and_other_dimensions():
    first, same = epoch(DIRECTIONS[:2], [2.0, 1.0]), epoch(DIRECTIONS[:2], [1.0, 5.0])
    other, half = epoch(DIRECTIONS[2:4], [2.0, 1.0]), epoch(DIRECTIONS[[1, 2]], [3.0, 1.0])
    second = np.concatenate([same, other, half])
    found = alignment_index(np.concatenate([first] * 3), second, n_components=2)
    np.testing.assert_allclose(found, [1.0, 0.0, 9 / 10], atol=1e-9)


def test_random_subspaces_hold_their_share():
    """Where all directions are alike, d of n dimensions hold d / n of the variance."""
    even = epoch(DIRECTIONS, [1.0] * 8)
    found = random_alignment(even, even, n_components=3, n_draws=50, key=jax.random.key(0))
    np.testing.assert_allclose(found, 1.0)  # any three directions hold as much as any others
    flat = epoch(DIRECTIONS[:2], [1.0, 1.0])
    drawn = random_alignment(even * 1e3, flat, n_components=2, n_draws=2000, key=jax.random.key(0))
    np.testing.assert_allclose(drawn.mean(), 2 / 8, atol=0.01)
    within = random_alignment(flat * 1e3, flat, n_components=2, n_draws=5, key=jax.random.key(0))
    np.testing.assert_allclose(within, 1.0)


def test_a_first_epoch_of_too_few_dimensions_is_refused(as_users_run):
    """Its other directions would be those of rounding."""
    full = epoch(DIRECTIONS, [1.0] * 8)
    for flat in (epoch(DIRECTIONS[:3], [3.0, 2.0, 1.0]), np.ones_like(full)):
        first = flat + 1e-8 * np.random.default_rng(2).normal(size=flat.shape)
        with pytest.raises(ValueError, match="`first` must vary in 5 dimensions"):
            alignment_index(first, full, n_components=5)
        with pytest.raises(ValueError, match="`first` must vary in 5 dimensions"):
            random_alignment(first, full, n_components=5, n_draws=2, key=jax.random.key(0))


BY_DPCA = np.load(Path(__file__).parent / "references" / "demixed_components.npz")


def reference_activity():
    """The activity of the reference, each cell as two trials about its mean, and the factors."""
    unit_last = np.moveaxis(BY_DPCA["activity"], 0, -1).reshape(8, 6, 7)
    apart = np.random.default_rng(0).normal(size=unit_last.shape)
    stimulus, choice = np.divmod(np.arange(8), 2)
    activity = np.concatenate([unit_last + apart, unit_last - apart])[None]
    return activity, {"stimulus": np.tile(stimulus, 2), "choice": np.tile(choice, 2)}


@pytest.mark.parametrize("regularization", [0.0, 0.01])
def test_components_are_those_of_the_reference_package(regularization):
    activity, factors = reference_activity()
    found = demixed_components(activity, factors, regularization=regularization)
    mean = BY_DPCA["activity"].reshape(7, -1)
    total = np.sum((mean - mean.mean(axis=1, keepdims=True)) ** 2)
    for name in ("time", "stimulus", "choice", "stimulus x choice"):
        own = (BY_DPCA[f"{regularization}/{name}/{part}"] for part in ("encoder", "decoder", "explained"))
        encoder, decoder, read = own
        sign = np.sign(found[name].encoder[0, 0] @ encoder)
        np.testing.assert_allclose(sign * found[name].encoder[0, 0], encoder, atol=2e-6)
        np.testing.assert_allclose(sign * found[name].decoder[0, 0], decoder, atol=2e-5)
        np.testing.assert_allclose(np.sum(found[name].projections[..., 0] ** 2) / total, read, atol=1e-8)
