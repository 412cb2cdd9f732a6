"""Dynamics of members: rotations whose angles and eigenvalues are known. Needs the extra `dsa`."""

import jax
import numpy as np
import pytest

pytest.importorskip("DSA.simdist")

from popsim.analysis.similarity import dynamical_angle, eigenvalue_distance  # noqa: E402

FIT = {"n_delays": 2, "rank": 2}


def rotating(frequency, seed, n_units=6):
    """States that rotate in a plane of the units, by `frequency` rad per step, from random phases."""
    generator = np.random.default_rng(seed)
    phase = frequency * np.arange(150) + generator.uniform(0, 2 * np.pi, (8, 1))
    plane = np.linalg.qr(generator.normal(size=(n_units, n_units)))[0][:2]
    return np.stack([np.cos(phase), np.sin(phase)], axis=-1) @ plane


def test_the_same_rotation_in_other_units_from_other_states_is_the_same():
    first, second = rotating(0.2, seed=1), rotating(0.2, seed=2, n_units=9)
    assert eigenvalue_distance(first, second, **FIT) < 1e-6
    assert dynamical_angle(first, second, **FIT, n_iterations=300, key=jax.random.key(0)) < 0.02


def test_other_frequencies_are_as_far_apart_as_they_differ():
    first, second = rotating(0.2, seed=1), rotating(0.6, seed=3)
    between_eigenvalues = (2 * np.sin(0.2)) ** 2
    np.testing.assert_allclose(eigenvalue_distance(first, second, **FIT), between_eigenvalues, rtol=0.01)
    angle = dynamical_angle(first, second, **FIT, n_iterations=300, key=jax.random.key(0))
    np.testing.assert_allclose(angle, 0.4, atol=0.01)


def test_the_descent_begins_where_the_key_says_and_leaves_torch_alone():
    torch = pytest.importorskip("torch")
    first = rotating(0.2, seed=1) + 0.5 * rotating(0.7, seed=4)
    second = rotating(0.2, seed=2) + 0.5 * rotating(0.7, seed=5)
    before = torch.random.get_rng_state()
    options = {"n_delays": 1, "rank": 4, "n_iterations": 5}
    found = [dynamical_angle(first, second, **options, key=jax.random.key(seed)) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]
    assert (torch.random.get_rng_state() == before).all()
    assert dynamical_angle(first, second, **options | {"n_iterations": 400}, key=jax.random.key(0)) < 0.05


def test_the_rounding_of_single_precision_is_no_dimension():
    single = rotating(0.2, seed=1).astype(np.float32)
    with pytest.raises(ValueError, match="vary in 3 dimensions"):
        eigenvalue_distance(single, single, n_delays=1, rank=3)
