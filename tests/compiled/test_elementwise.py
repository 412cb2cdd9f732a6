"""The derivatives of elementwise functions, against those that JAX takes by itself."""

import jax
import jax.numpy as jnp
import pytest
from short_form import every_nth

from popsim._compiled import elementwise


def kinked(p, x, y):
    """Two results of two arrays and of parameters: a scalar, one for each index, and none."""
    kink = jnp.where(x > 1, p["a"] * jnp.maximum(x, y) ** 2, jnp.exp(x * y) + p["b"])
    return kink, jnp.clip(x, 0.0, 1.0) * y


def coupled(p, x, y):
    return p["a"] * x * jnp.sum(y), jnp.cumsum(x) * y


P = {"a": jnp.array(2.0), "b": jnp.arange(6.0), "c": None}
X, Y = jnp.linspace(-1.0, 2.0, 6), jnp.linspace(0.3, 0.9, 6)
STACKED = jnp.stack([X, X + 0.3, X - 0.2])
WITH_RESPECT_TO_ALL = (0, 1, 2)


def total(function):
    return lambda *args: sum(jnp.sum(jnp.sin(made)) for made in function(*args))


def forward(function):
    return lambda *args: jax.jvp(function, args, jax.tree.map(jnp.cos, args))


def gradient(function):
    return jax.grad(total(function), WITH_RESPECT_TO_ALL)


def second(function):
    return jax.hessian(total(function), WITH_RESPECT_TO_ALL)


def over(take, axis):
    """The derivative of a function mapped over an axis of one argument."""
    return lambda function: take(jax.vmap(function, in_axes=(None, axis, None), out_axes=axis))


def of_members(take):
    """A map over members, with their parameters, of one over trials on the last axis."""

    def mapped(function):
        trials = jax.vmap(take(function), in_axes=(None, -1, None), out_axes=-1)
        return jax.vmap(trials, in_axes=(0, None, None))

    return mapped


MEMBERS = {"a": jnp.array([2.0, 3.0]), "b": jnp.stack([P["b"], 1 - P["b"]]), "c": None}
CASES = {
    "value": (lambda function: function, (P, X, Y)),
    "forward": (forward, (P, X, Y)),
    "gradient": (gradient, (P, X, Y)),
    "second": (second, (P, X, Y)),
    "trials first": (over(gradient, 0), (P, STACKED, Y)),
    "trials last": (over(gradient, 1), (P, STACKED.T, Y)),
    "members": (of_members(gradient), (MEMBERS, STACKED.T, Y)),
    "members, value": (of_members(lambda function: function), (MEMBERS, STACKED.T, Y)),
}


@pytest.mark.parametrize("function", [kinked, coupled])
@pytest.mark.parametrize("case", every_nth(CASES, 2))
def test_derivatives_are_those_of_the_function(function, case):
    take, args = CASES[case]
    found, expected = (jax.jit(take(given))(*args) for given in (elementwise(function), function))
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.shape == b.shape and jnp.allclose(a, b, rtol=1e-5, atol=1e-5)


def test_only_differentiated_arguments_have_factors():
    def n_multiplied(argnums):
        _, pull = jax.vjp(lambda *own: elementwise(kinked)(*with_constants(own, argnums)), *chosen(argnums))
        cotangents = jnp.ones(6), jnp.ones(6)
        return str(jax.make_jaxpr(pull)(cotangents)).count(" mul ")

    def chosen(argnums):
        return tuple((P, X, Y)[index] for index in argnums)

    def with_constants(own, argnums):
        given = dict(zip(argnums, own, strict=True))
        return tuple(given.get(index, constant) for index, constant in enumerate((P, X, Y)))

    assert n_multiplied((1,)) == 2  # both results depend on x
    assert n_multiplied((1, 2)) == 4
    assert n_multiplied((0,)) == 2  # only the first depends on the two parameters


def test_a_function_with_a_derivative_of_its_own_keeps_it():
    @jax.custom_vjp
    def straight_through(x):
        return jnp.round(x)

    straight_through.defvjp(lambda x: (jnp.round(x), None), lambda _, change: (change,))

    @jax.custom_jvp
    def doubled(x):
        return jnp.exp(x)

    doubled.defjvps(lambda change, result, x: 2 * change * result)
    assert jnp.allclose(jax.grad(lambda x: elementwise(straight_through)(x))(0.4), 1.0)
    assert jnp.allclose(jax.grad(lambda x: jnp.sum(elementwise(doubled)(x)))(X), 2 * jnp.exp(X))
