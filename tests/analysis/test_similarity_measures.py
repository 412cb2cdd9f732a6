"""Measures of how alike two members are: what they do not change with, and cases with known answers."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import procrustes
from scipy.stats import ortho_group

from popsim.analysis.similarity import (
    canonical_correlations,
    cca_distance,
    debiased_linear_cka,
    linear_cka,
    pairwise,
    principal_patterns,
    procrustes_angle,
    procrustes_distance,
    rbf_cka,
    svcca_distance,
)

MEASURES = [
    linear_cka,
    debiased_linear_cka,
    rbf_cka,
    procrustes_angle,
    procrustes_distance,
    cca_distance,
    svcca_distance,
]


@pytest.fixture
def generator():
    return np.random.default_rng(1)


@pytest.fixture
def pair(generator):
    """Two members with 5 and 4 units, alike in part, in (trial, time)."""
    first = generator.normal(size=(10, 12, 5)) * [3, 2, 1, 0.5, 0.3]
    second = first @ generator.normal(size=(5, 4)) + 2 * generator.normal(size=(10, 12, 4))
    return first, second


@pytest.mark.parametrize("measure", MEASURES)
def test_what_changes_a_measure(measure, pair, generator):
    """No rotation, reflection or move; scaling only the distance in its unit; linear maps all but CCA."""
    first, second = pair
    expected = measure(first, second)
    assert isinstance(expected, float)
    turned = 10 + first @ ortho_group.rvs(5, random_state=generator)
    np.testing.assert_allclose([measure(turned, second), measure(second, first)], expected, atol=1e-10)
    scaled = abs(measure(3 * first, second) - expected)
    assert (scaled > 0.1) == (measure is procrustes_distance) and (scaled > 1e-10) == (scaled > 0.1)
    mapped = first @ (generator.normal(size=(5, 5)) + np.eye(5))
    assert (abs(measure(mapped, second) - expected) < 1e-10) == (measure is cca_distance)
    similarity = measure in (linear_cka, debiased_linear_cka, rbf_cka)
    np.testing.assert_allclose(measure(first, first), 1.0 if similarity else 0.0, atol=1e-6)


def gram_centred(activity):
    samples = activity.reshape(-1, activity.shape[-1])
    centring = np.eye(len(samples)) - 1 / len(samples)
    return centring @ samples @ samples.T @ centring


def test_cka_is_the_cosine_of_centred_gram_matrices(pair):
    k, other = (gram_centred(activity) for activity in pair)
    cosine = np.trace(k @ other) / np.sqrt(np.trace(k @ k) * np.trace(other @ other))
    np.testing.assert_allclose(linear_cka(*pair), cosine, rtol=1e-12)


def u_centred(activity):
    """U-centring of Szekely & Rizzo 2014: another way to the unbiased estimate, with an empty diagonal."""
    gram = activity.reshape(-1, activity.shape[-1]) @ activity.reshape(-1, activity.shape[-1]).T
    np.fill_diagonal(gram, 0.0)
    n = len(gram)
    sums = gram.sum(axis=0) / (n - 2)
    centred = gram - sums - sums[:, None] + gram.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(centred, 0.0)
    return centred


def test_debiased_cka_is_the_cosine_of_u_centred_gram_matrices(pair):
    k, other = (u_centred(activity) for activity in pair)
    cosine = np.sum(k * other) / np.sqrt(np.sum(k * k) * np.sum(other * other))
    np.testing.assert_allclose(debiased_linear_cka(*pair), cosine, rtol=1e-10)


def test_the_procrustes_angle_is_that_of_scipy(generator):
    first, second = generator.normal(size=(2, 20, 3))
    *_, disparity = procrustes(first, second)
    np.testing.assert_allclose(np.sin(procrustes_angle(first, second)) ** 2, disparity, rtol=1e-10)


def test_canonical_correlations_are_those_that_were_planted(generator):
    samples, _ = np.linalg.qr(generator.normal(size=(200, 7)) - 0.0)
    samples, _ = np.linalg.qr(samples - samples.mean(axis=0))
    planted = np.array([0.9, 0.5, 0.1])
    first = samples[:, :3]
    second = planted * first + np.sqrt(1 - planted**2) * samples[:, 3:6]
    found = canonical_correlations(first @ generator.normal(size=(3, 6)), second)
    np.testing.assert_allclose(found, planted, atol=1e-10)
    np.testing.assert_allclose(cca_distance(first, second), 0.5, atol=1e-10)


def test_components_that_vary_little_are_left_out_of_svcca(generator):
    samples, _ = np.linalg.qr(generator.normal(size=(300, 6)))
    samples, _ = np.linalg.qr(samples - samples.mean(axis=0))
    first, second = samples[:, :3] * [1, 1, 0.05], samples[:, [0, 1, 3]] * [1, 1, 0.05]
    np.testing.assert_allclose(cca_distance(first, second), 1 / 3, atol=1e-10)
    np.testing.assert_allclose(svcca_distance(first, second), 0.0, atol=1e-10)
    np.testing.assert_allclose(svcca_distance(first, second, share_of_variance=0.9999), 1 / 3, atol=1e-10)


@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_the_rounding_of_single_precision_is_no_dimension(offset, generator):
    """Activity of three dimensions in twenty units, as a network in single precision would have it."""
    first = (generator.normal(size=(400, 3)) @ generator.normal(size=(3, 20)) + offset).astype(np.float32)
    second = first @ ortho_group.rvs(20, random_state=generator).astype(np.float32)
    assert canonical_correlations(first, second).shape == (3,)
    assert cca_distance(first, second) < 1e-9
    assert principal_patterns(first, share_of_variance=1.0).shape == (400, 3)


def test_all_pairs_are_measured_of_members_with_different_numbers_of_units(pair):
    members = [*pair, pair[0][..., :2]]
    found = pairwise(members, svcca_distance)
    assert found.shape == (3, 3) and (found == found.T).all()
    np.testing.assert_allclose(found[1, 2], svcca_distance(members[1], members[2]))
    with ThreadPoolExecutor(2) as executor:
        many = [*members] * 9  # more than there are blocks on a side
        beside = pairwise(many, svcca_distance, executor=executor)
    np.testing.assert_array_equal(beside, pairwise(many, svcca_distance))
    np.testing.assert_allclose(beside, np.tile(found, (9, 9)), atol=1e-12)
    as_array = pairwise(np.stack([pair[0], 2 * pair[0]]), procrustes_distance)
    np.testing.assert_allclose(as_array[0, 1], procrustes_distance(pair[0], 2 * pair[0]))


def by_jax(first, second):
    return float(jnp.linalg.norm(jnp.asarray(first) - jnp.asarray(second)))


@pytest.mark.parametrize("context", ["fork", "default"])
def test_processes_are_not_forked(context, as_users_run):
    """A measure in JAX would wait for ever in a fork."""
    method = multiprocessing.get_start_method() if context == "default" else context
    chosen = None if context == "default" else multiprocessing.get_context(context)
    members = np.arange(8.0).reshape(2, 2, 2)
    with ProcessPoolExecutor(1, mp_context=chosen) as executor:
        if method == "fork":
            with pytest.raises(ValueError, match="`executor` must not fork"):
                pairwise(members, by_jax, executor=executor)
