"""Functions of one trial run with the trials last give what `jax.vmap` gives, derivatives included."""

import functools

import equinox as eqx
import every_intervention
import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr
from short_form import every_nth, mostly_in_full

import popsim
from popsim._compiled import map_trials
from popsim._compiled._operations import sizes_of_scan

N_TRIALS = 5
CONSTANT = jnp.arange(12.0).reshape(4, 3) / 7
MANY = jnp.sin(jnp.arange(60.0)).reshape(20, 3)


@jax.custom_vjp
def doubled_gradient(x):
    return x


doubled_gradient.defvjp(lambda x: (x, None), lambda _, g: (2 * g,))


def walk(x, m, key):
    """A random walk whose noise does not depend on its state, with a draw at each step that does."""

    def step(state, at_step):
        t, row = at_step
        noise = 0.1 * jax.random.normal(jax.random.fold_in(key, t), state.shape)
        kicked = jnp.where(jax.random.uniform(key) < jnp.sum(state), state + noise, state)
        return jnp.tanh(kicked + row + jnp.sum(CONSTANT @ kicked)), (kicked, noise)

    last, (path, noise) = jax.lax.scan(step, x, (jnp.arange(2), m))
    return last + path.sum(0), noise


def fast_weights(x, m, key):
    """A loop in which each trial has a matrix of its own, which multiplies a vector of 18 numbers."""

    def step(state, row):
        weights, rates = state
        rates = jnp.tanh(weights @ rates + jnp.tile(row, 6))
        weights = 0.9 * weights + 0.1 * jnp.outer(rates, rates)
        return (weights, rates), rates

    return jax.lax.scan(step, (jnp.zeros((18, 18)), jnp.tile(x, 6)), m)


FUNCTIONS = {
    "fast weights": fast_weights,
    "elementwise": lambda x, m, key: jnp.where(x > 0, jnp.sin(x) * 2.0, jnp.clip(x, -0.5, 0.5)) + x[0] ** 3,
    "constants": lambda x, m, key: (jnp.ones(4), m + CONSTANT[0], jnp.maximum(CONSTANT[1], 0.0)),
    "shapes": lambda x, m, key: jnp.concatenate([m.T.reshape(-1), x[None, ::-1][0], m[1, 1:], CONSTANT[0]]),
    "parts": lambda x, m, key: jnp.split(jnp.tile(x, 2), 2)[1] + jnp.squeeze(m[:1], 0),
    "reductions": lambda x, m, key: (m.sum(0), m.max(1), jnp.cumsum(m, 1), jnp.argmax(x), jnp.prod(x)),
    "sorted": lambda x, m, key: (jnp.sort(x), jax.lax.top_k(m, 2)[0]),
    "weights first": lambda x, m, key: (MANY @ x, MANY @ m.T),
    "weights last": lambda x, m, key: (x @ MANY.T, m @ MANY.T),
    "small products": lambda x, m, key: (CONSTANT @ x, m @ x, jnp.einsum("ij,ij->i", m, m), jnp.outer(x, x)),
    "integers": lambda x, m, key: ((x > 0) @ (m > 0).T, (9 * x).astype("i1") @ jnp.eye(3, dtype="i1")),
    "products of trials": lambda x, m, key: jnp.tile(m, (5, 1)) @ jnp.tile(m, (5, 1)).T,
    "same place": lambda x, m, key: jax.lax.dynamic_update_slice(m, CONSTANT[:1, :2], (1, 0))[:, 1],
    "own place": lambda x, m, key: (m[jnp.argmax(x) % 2], MANY[jnp.argmax(x)], x.at[jnp.argmax(x)].set(0.0)),
    "branches": lambda x, m, key: jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    "padded": lambda x, m, key: jnp.pad(m, ((1, 0), (0, 2)), constant_values=0.5),
    "solved": lambda x, m, key: jnp.linalg.solve(jnp.outer(x, x) + jnp.eye(3), x),
    "custom derivatives": lambda x, m, key: jax.nn.relu(x) + jax.nn.logsumexp(m, axis=0) + jax.nn.silu(x),
    "recomputed": lambda x, m, key: jax.checkpoint(lambda y: jnp.sin(y) * m)(jnp.sin(x)),
    "drawn": lambda x, m, key: jnp.where(jax.random.bernoulli(key), x, jax.random.normal(key, (3,))),
    "keys": lambda x, m, key: [
        (jax.random.bits(each, (3, 5)), jax.random.uniform(each), jax.random.exponential(each))
        for each in (*jax.random.split(key), *jax.random.split(key, (2, 2))[1], jax.random.fold_in(key, 7))
    ],
    "other draws": lambda x, m, key: (
        jax.random.bits(key, (3,), np.uint8),
        jax.random.permutation(key, 6),
        jax.random.randint(key, (4,), 0, 9),
        jax.random.gamma(key, 2.0),
        jax.vmap(jax.random.normal)(jax.random.split(key, 3)),
    ),
    "walk": walk,
    "recomputed walk": lambda x, m, key: jax.checkpoint(walk)(x, m, key),
    "backwards": lambda x, m, key: jax.lax.scan(lambda c, row: (c * row, c), x, m, reverse=True),
    "no state": lambda x, m, key: jax.lax.scan(lambda c, row: (c, row * 2), (), m)[1],
}


def arguments():
    x, m = (jax.random.normal(jax.random.key(n), (N_TRIALS, *[2] * n, 3)) for n in range(2))
    return x, m, jax.random.split(jax.random.key(2), N_TRIALS)


def assert_close(given, expected):
    assert jax.tree.structure(given) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(given), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", every_nth(FUNCTIONS, 6))
def test_values_and_derivatives_are_those_of_vmap(name):
    function, (x, m, keys) = FUNCTIONS[name], arguments()

    @functools.partial(jax.jit, static_argnums=0)
    def all_of(mapped, x, m):
        def outputs(x, m):
            return mapped(x, m, keys)

        def total(x, m):
            leaves = jax.tree.leaves(outputs(x, m))
            numbers = [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]
            return sum((jnp.sum(jnp.sin(leaf)) for leaf in numbers), start=0.0 * jnp.sum(x))

        members = jax.vmap(total)(jnp.stack([x, 2 * x]), jnp.stack([m, m - 1]))
        return outputs(x, m), jax.grad(total, (0, 1))(x, m), jax.jvp(total, (x, m), (m[:, 0], m)), members

    assert_close(all_of(functools.partial(map_trials, function), x, m), all_of(jax.vmap(function), x, m))


def test_a_reversed_derivative_of_the_users_own_is_kept():
    x, m, keys = arguments()

    def total(x):
        return jnp.sum(map_trials(lambda own, m, key: doubled_gradient(own), x, m, keys))

    np.testing.assert_array_equal(jax.grad(total)(x), np.full(x.shape, 2.0))


def remembered(x, seen):
    def remember(x):
        seen.append(x)
        return x

    return jax.experimental.io_callback(remember, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def reversed_rule(seen):
    watched = jax.custom_vjp(lambda x: x)
    watched.defvjp(lambda x: (remembered(x, seen), None), lambda _, g: (3 * g,))
    return watched


def forward_rule(seen):
    watched = jax.custom_jvp(lambda x: x)
    watched.defjvp(lambda x, dx: (remembered(x[0], seen), 3 * dx[0]))
    return watched


@pytest.mark.parametrize("rule", [reversed_rule, forward_rule])
def test_the_effects_of_a_derivative_are_not_repeated(rule):
    seen = []
    watched, (x, m, keys) = rule(seen), arguments()

    def total(x):
        def of_one(own, m, key):
            return jax.lax.scan(lambda c, row: (watched(c) + jnp.sum(row), None), own[0], m)[0]

        return jnp.sum(map_trials(of_one, x, m, keys))

    np.testing.assert_allclose(jax.grad(total)(x)[:, 0], 9.0)
    jax.effects_barrier()
    assert len(seen) == 2 * N_TRIALS


def operations_within(program, name):
    """The names of the operations in the bodies of all operations called `name`."""
    found = []
    for equation in program.eqns:
        for part in jax.tree.leaves(equation.params, is_leaf=lambda node: isinstance(node, ClosedJaxpr)):
            if isinstance(part, ClosedJaxpr | Jaxpr):
                inner = part.jaxpr if isinstance(part, ClosedJaxpr) else part
                is_body = equation.primitive.name == name
                found += [each.primitive.name for each in inner.eqns] if is_body else []
                found += operations_within(inner, name)
    return found


def test_an_error_concerns_the_trials_for_which_it_is_raised():
    def checked(x, limit):
        def step(state, row):
            return eqx.error_if(state + row, row > limit, "too large"), None

        return jax.lax.scan(step, x[0], x)[0]

    x = jnp.arange(6.0).reshape(3, 2)
    of_limit = eqx.filter_jit(lambda limit: map_trials(lambda own: checked(own, limit), x))
    np.testing.assert_array_equal(of_limit(100.0), x[:, 0] + x.sum(1))
    with pytest.raises(Exception, match="too large"):
        jax.block_until_ready(of_limit(4.5))


def test_numbers_of_trials_that_differ_are_refused():
    with pytest.raises(ValueError, match="as many trials in each array, got \\[1, 3\\]"):
        map_trials(jnp.add, jnp.ones(3), jnp.ones(1))


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg"])
def test_draws_have_the_bits_of_jax(implementation):
    keys = jax.random.split(jax.random.key(3, impl=implementation), N_TRIALS)

    def drawn(key):
        folded = jax.random.fold_in(key, 2**32 - 1)
        others = jax.random.bits(jax.random.split(key, 3)[2]), jax.random.bits(key)
        return jax.random.bits(folded, (2, 3)), *others

    for given, expected in zip(map_trials(drawn, keys), jax.vmap(drawn)(keys), strict=True):
        np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("remat", [False, True])
def test_noise_is_drawn_before_the_loop_and_only_what_is_read_is_recorded(remat):
    model, keys = every_intervention.noisy_loop(), jax.random.split(jax.random.key(0), 4)
    trials = jax.vmap(lambda _: every_intervention.reach(6))(jnp.arange(4))

    def path(trial, key):
        return popsim.simulate(model, trial, remat=remat, key=key).hand.position

    program = jax.make_jaxpr(functools.partial(map_trials, path))(trials, keys)
    inside = operations_within(program.jaxpr, "scan") + operations_within(program.jaxpr, "remat2")
    assert "tanh" in inside
    assert not {"random_bits", "random_fold_in", "threefry2x32", "erf_inv"} & set(inside)
    (loop,) = [each for each in program.jaxpr.eqns if each.primitive.name == "scan"]
    assert [variable.aval.shape for variable in loop.outvars][sizes_of_scan(loop.params)[1] :] == [(6, 2, 4)]


def test_a_loop_with_a_matrix_for_each_trial_transposes_none():
    x, m, keys = arguments()
    program = jax.make_jaxpr(functools.partial(map_trials, fast_weights))(x, m, keys)
    (loop,) = [each for each in program.jaxpr.eqns if each.primitive.name == "scan"]
    inside = [each for each in loop.params["jaxpr"].eqns if each.primitive.name == "transpose"]
    assert not [each for each in inside if each.invars[0].aval.size > 18 * N_TRIALS]
    assert (N_TRIALS, 18, 18) in [variable.aval.shape for variable in loop.invars]


@pytest.mark.parametrize("name", mostly_in_full(every_intervention.MODELS, ["network model"]))
def test_every_intervention_acts_as_under_vmap(name):
    build, of_model = every_intervention.MODELS[name]
    model = build(of_model)
    acting = jnp.ones((len(of_model), every_intervention.N_STEPS), bool)
    trials = jax.vmap(lambda _: every_intervention.scheduled(of_model, acting))(jnp.arange(3))
    keys = jax.random.split(jax.random.key(0), 3)

    def states(trial, key):
        return popsim.simulate(model, trial, key=key)

    by_engine = eqx.filter_jit(map_trials)(states, trials, keys)
    assert_close(by_engine, eqx.filter_jit(jax.vmap(states))(trials, keys))
