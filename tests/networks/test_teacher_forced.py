"""Teacher forcing is exact at both ends, and scales the gradient that passes a forced state by 1 - α."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT
from wrong_arguments import assert_named_in_one_line, wrong_arguments

import popsim
from popsim import tasks
from popsim.networks import (
    EncodedNetwork,
    GRUNetwork,
    LSTMNetwork,
    StackedNetwork,
    TeacherForced,
    TrainableStart,
    VanillaRNN,
    build_network,
)

KEY = jax.random.key(3)
N_STEPS, N_UNITS = 7, 6
OBSERVED, CUE = jax.random.normal(KEY, (N_STEPS, N_UNITS)), jnp.linspace(-1, 1, N_STEPS)[:, None]


def named(name):
    return lambda: build_network(name, 1, N_UNITS, 2, dt=DT, noise_std=0.1, key=KEY)


BUILD = {name: named(name) for name in ("gru", "tanh", "vanilla", "low-rank", "two-areas")} | {
    "start": lambda: TrainableStart(named("gru")(), jnp.full(N_UNITS, 0.3)),
    "encoded": lambda: EncodedNetwork(named("tanh")(), jnp.tanh, n_inputs=1),
}


def outputs(network, inputs):
    """What a network puts out in a trial; its noise is that of the key."""
    trial = popsim.Trial((), inputs, (), popsim.Timeline(DT, N_STEPS))
    model = popsim.NetworkModel(network, dt=DT)
    return popsim.simulate(model, trial, key=KEY).network.output


def forcing(strength, n_observed=N_UNITS):
    return jnp.concatenate([jnp.full((N_STEPS, 1), strength), OBSERVED[:, :n_observed]], axis=1)


@pytest.mark.parametrize("name", BUILD)
def test_a_strength_of_0_is_the_bare_network_and_1_predicts_one_step(name):
    """The first to the last bit, the other to the rounding of another program; with noise and an input."""
    network = BUILD[name]()
    bare = outputs(network, {"stimulus": CUE})
    free = outputs(TeacherForced(network, 4), {"forcing": forcing(0.0, 4), "stimulus": CUE})
    np.testing.assert_array_equal(free, bare)

    forced = outputs(TeacherForced(network, N_UNITS), {"forcing": forcing(1.0), "stimulus": CUE})
    keys = jax.vmap(jax.random.fold_in, (None, 0))(popsim.key_stream(KEY, "steps"), jnp.arange(N_STEPS))

    def one_step(observed, cue, key):
        return network.read_out(network.step(cue, observed, key=key))

    np.testing.assert_allclose(forced, jax.jit(jax.vmap(one_step))(OBSERVED, CUE, keys), atol=1e-6)
    assert not np.allclose(forced, bare, atol=1e-2)


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
def test_gradients_are_those_of_a_backward_pass_written_by_hand(strength, float64):
    """g is what the loss loses by the state after a step; what passes a forced state is scaled by 1 - α."""
    network, n_observed = VanillaRNN(1, N_UNITS, 2, key=KEY), 4
    signal = forcing(strength, n_observed).astype(float)

    def loss(network):
        inputs = {"forcing": signal, "stimulus": CUE.astype(float)}
        return jnp.sum(outputs(TeacherForced(network, n_observed), inputs) ** 2)

    kept = jnp.where(jnp.arange(N_UNITS) < n_observed, 1 - signal[0, 0], 1)
    step = lambda network, hidden, cue: network.step(cue, hidden, key=KEY)  # noqa: E731
    hidden, passes = network.init(key=KEY), []
    for observed, cue in zip(OBSERVED.astype(float), CUE.astype(float), strict=True):
        start = kept * hidden + (1 - kept) * observed
        hidden, pull = eqx.filter_vjp(step, network, start, cue)
        cost, pull_cost = eqx.filter_vjp(lambda n, h: jnp.sum(n.read_out(h) ** 2), network, hidden)
        passes.append((pull, pull_cost(jnp.ones_like(cost))))
    total, g = jax.tree.map(jnp.zeros_like, eqx.filter(network, eqx.is_inexact_array)), jnp.zeros(N_UNITS)
    for pull, (of_readout, of_cost) in reversed(passes):
        of_step, of_start, _ = pull(of_cost + g)
        g = kept * of_start
        total = jax.tree.map(lambda *parts: sum(parts), total, of_readout, of_step)
    found = eqx.filter_grad(loss)(network)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(total), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-13)


def test_trials_start_where_they_were_observed_and_may_then_run_freely():
    """Also in analyses, which leave the strength at zero."""
    orbits = jnp.stack([OBSERVED, -OBSERVED])
    stored = tasks.StoredTrials({"observed": orbits}, orbits[..., :2], dt=DT, validation=[0])
    free = dataclasses.replace(tasks.WithTeacherForcing(stored, 0.4), strength=0.0)
    network = GRUNetwork(0, N_UNITS, 2, key=KEY)
    model = popsim.NetworkModel(TeacherForced(network, N_UNITS), dt=DT)
    found = popsim.evaluate(model, free, key=KEY).states.network.output[0]
    alone = popsim.NetworkModel(TrainableStart(network, OBSERVED[0]), dt=DT)
    trial = popsim.Trial((), {"nothing": jnp.zeros((N_STEPS, 0))}, (), popsim.Timeline(DT, N_STEPS))
    np.testing.assert_array_equal(found, popsim.simulate(alone, trial, key=KEY).network.output)
    rolled = popsim.analysis.dynamics.rollout(
        jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, model),
        OBSERVED[None, :1],
        N_STEPS,
    )
    read_out = jax.vmap(network.read_out)(jnp.asarray(rolled[0, 0], jnp.float32))
    np.testing.assert_allclose(read_out, found, atol=1e-6)


def forced(network=None, n_observed=2):
    return TeacherForced(VanillaRNN(1, 5, 2, key=KEY) if network is None else network, n_observed)


LSTM = LSTMNetwork(1, 5, 2, key=KEY)


@wrong_arguments(
    networks=[
        (
            "network` must have one vector as its hidden state, got that of a LSTMNetwork",
            lambda: forced(LSTM),
        ),
        ("network", lambda: forced(StackedNetwork([GRUNetwork(1, 5, 2, key=KEY)]))),
        ("network", lambda: forced(TrainableStart(LSTM))),
        ("network", lambda: forced(named("short-term")())),
        ("network", lambda: forced(OBSERVED)),
        ("n_observed", lambda: forced(n_observed=0)),
        ("n_observed` must be at most the 5 numbers", lambda: forced(n_observed=6)),
    ]
)
@pytest.mark.usefixtures("as_users_run")
def test_what_cannot_be_forced_is_named(argument, call):
    assert_named_in_one_line(argument, call)
