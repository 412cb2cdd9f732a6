"""Alignment of planted subspaces."""

import jax
import numpy as np
import pytest

from popsim.analysis.neural_activity import alignment_index, random_alignment

BASIS = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]


def epoch(directions: np.ndarray, deviations: list[float]) -> np.ndarray:
    """One member with these standard deviations along directions of units."""
    samples = np.random.default_rng(1).normal(size=(60, len(deviations)))
    latent = np.linalg.qr(samples - samples.mean(axis=0))[0] * np.sqrt(60) * deviations
    return (latent @ directions).reshape(1, 6, 10, 8)


def test_the_same_and_other_dimensions():
    first, same = epoch(BASIS[:2], [2.0, 1.0]), epoch(BASIS[:2], [1.0, 5.0])
    other, half = epoch(BASIS[2:4], [2.0, 1.0]), epoch(BASIS[[1, 2]], [3.0, 1.0])
    second = np.concatenate([same, other, half])
    found = alignment_index(np.concatenate([first] * 3), second, n_components=2)
    np.testing.assert_allclose(found, [1.0, 0.0, 9 / 10], atol=1e-9)


def test_only_as_many_dimensions_as_asked_for_count():
    """The first direction of the one holds a tenth of the other, whose first would hold nine."""
    found = alignment_index(epoch(BASIS[:2], [2.0, 1.0]), epoch(BASIS[:2], [1.0, 3.0]), n_components=1)
    np.testing.assert_allclose(found, 1 / 9)


def test_dimensions_half_way_between():
    turned = (BASIS[:2] + BASIS[2:4]) / np.sqrt(2)
    found = alignment_index(epoch(BASIS[:2], [1.0, 1.0]), epoch(turned, [1.0, 1.0]), n_components=2)
    np.testing.assert_allclose(found, 0.5)


def test_random_subspaces_hold_their_share():
    """Where all directions are alike, d of n dimensions hold d / n of the variance."""
    even = epoch(BASIS, [1.0] * 8)
    found = random_alignment(even, even, n_components=3, n_draws=50, key=jax.random.key(0))
    np.testing.assert_allclose(found, 1.0)  # any three directions hold as much as any others
    flat = epoch(BASIS[:2], [1.0, 1.0])
    drawn = random_alignment(even * 1e3, flat, n_components=2, n_draws=2000, key=jax.random.key(0))
    np.testing.assert_allclose(drawn.mean(), 2 / 8, atol=0.01)
    within = random_alignment(flat * 1e3, flat, n_components=2, n_draws=5, key=jax.random.key(0))
    np.testing.assert_allclose(within, 1.0)


@pytest.mark.parametrize("noise", [0.0, 1e-13, 1e-8])
def test_a_first_epoch_of_too_few_dimensions_is_refused(noise, as_users_run):
    """Its other directions would be those of rounding."""
    full = epoch(BASIS, [1.0] * 8)
    for flat in (epoch(BASIS[:3], [3.0, 2.0, 1.0]), np.ones_like(full)):
        first = flat + noise * np.random.default_rng(2).normal(size=flat.shape)
        with pytest.raises(ValueError, match="`first` must vary in 5 dimensions"):
            alignment_index(first, full, n_components=5)
        with pytest.raises(ValueError, match="`first` must vary in 5 dimensions"):
            random_alignment(first, full, n_components=5, n_draws=2, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("second", "n_components", "name"),
    [(np.ones((1, 2, 3, 8)), 2, "second"), (np.ones((1, 2, 3, 7)), 2, "second"), (None, 9, "n_components")],
)
def test_what_does_not_fit_is_refused(as_users_run, second, n_components, name):
    first = epoch(BASIS[:2], [1.0, 1.0])
    with pytest.raises(ValueError, match=f"`{name}`"):
        alignment_index(first, first if second is None else second, n_components=n_components)
