"""Lyapunov exponents against closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from popsim.analysis import dynamics


class Matrix(eqx.Module):
    """A linear map."""

    weights: jax.Array


def linear(model, state):
    return model.weights @ state


class Rate(eqx.Module):
    value: jax.Array


def logistic(model, state):
    return model.value * state * (1 - state)


def test_those_of_linear_maps_are_the_logarithms_of_their_eigenvalues():
    sizes = np.array([[0.9, 0.5, 0.2], [1.3, 0.7, 0.6]])
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    weights = np.stack([turned @ np.diag(each) @ turned.T for each in sizes])
    start = np.full((2, 1, 3), 1e-6)
    found = dynamics.lyapunov_spectrum(
        Matrix(jnp.asarray(weights)), start, 100, dt=0.01, n_transient=200, dynamics=linear
    )
    np.testing.assert_allclose(found.exponent[:, 0], np.log(sizes) / 0.01, rtol=1e-6)
    assert np.all(found.standard_error < 1e-5)
    largest = dynamics.lyapunov_spectrum(
        Matrix(jnp.asarray(weights)), start, 100, dt=0.01, n_transient=200, n_exponents=1, dynamics=linear
    )
    np.testing.assert_allclose(largest.exponent[..., 0], found.exponent[..., 0], rtol=1e-6)


def test_that_of_the_logistic_map_is_the_logarithm_of_two():
    found = dynamics.lyapunov_spectrum(
        Rate(jnp.array([4.0])), np.array([[[0.3], [0.61]]]), 20_000, dt=1.0, dynamics=logistic
    )
    np.testing.assert_allclose(found.exponent, np.log(2), atol=5e-3)
    assert np.all(np.abs(found.exponent - np.log(2)) < 4 * found.standard_error + 1e-3)


def test_they_are_in_order_and_a_deviation_that_vanishes_has_minus_infinity():
    def by_turns(model, state):  # the second number grows by 3 in two of three steps, the first in the other
        turn = state[3] % 3 > 0.5
        grow = jnp.where(turn, jnp.array([1.0, 3.0, 0.0]), jnp.array([3.0, 1.0, 0.0]))
        return jnp.concatenate([grow * state[:3], state[3:] + 1.0])

    states = np.array([[[0.0, 0.0, 0.0, 1.0]]])
    found = dynamics.lyapunov_spectrum(Rate(jnp.zeros(1)), states, 11, dt=1.0, dynamics=by_turns)
    expected = [0.7 * np.log(3), 0.3 * np.log(3), 0.0, -np.inf]  # of the ten steps after the first
    np.testing.assert_allclose(found.exponent[0, 0], expected, atol=1e-12)
    assert np.isnan(found.standard_error[0, 0, -1])
    assert np.isnan(dynamics.kaplan_yorke_dimension(found.exponent[..., :2]))
    assert dynamics.kaplan_yorke_dimension(found.exponent) == 3  # all but the one that vanishes


@pytest.mark.parametrize(
    ("exponents", "dimension"),
    [([-1.0, -2.0], 0), ([0.0, -1.0], 1), ([0.5, -0.25, -1.0], 2.25), ([0.5, 0.1], np.nan)],
)
def test_the_dimension_is_that_of_kaplan_and_yorke(exponents, dimension):
    np.testing.assert_allclose(dynamics.kaplan_yorke_dimension(np.array(exponents)), dimension)
