"""What holds for every network, by itself and around or within another one."""

import operator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT
from short_form import mostly_in_full

import popsim
from popsim.networks import (
    NETWORKS,
    AreaRNN,
    Areas,
    DifferentiablePlasticity,
    EncodedNetwork,
    EncodedStart,
    FastWeights,
    GRUNetwork,
    LeakyRNN,
    LowRankRNN,
    LSTMNetwork,
    NetworkState,
    NetworkStep,
    Sparse,
    StackedNetwork,
    TeacherForced,
    TrainableStart,
    build_network,
    unit_activity,
)
from popsim.noise import NoNoise, without_noise

KEY = jax.random.key(3)
N_INPUTS, N_UNITS, N_OUTPUTS, N_STEPS = 3, 6, 2, 3
SIZES = (N_INPUTS, N_UNITS, N_OUTPUTS)


def delayed_areas(key):
    areas = Areas({"a": 4, "b": 3}, connections={("a", "b"): Sparse(0.5)}, delays={("a", "b"): 2 * DT})
    return AreaRNN(areas, {"inputs": N_INPUTS}, N_OUTPUTS, dt=DT, noise_std=0.1, key=key)


def plastic(plasticity):
    return lambda key: LeakyRNN(*SIZES, dt=DT, noise_std=0.1, plasticity=plasticity, key=key)


BUILD = {
    name: lambda key, name=name: build_network(name, *SIZES, dt=DT, noise_std=0.1, key=key)
    for name in NETWORKS
    if name != "spiking"  # whose activity are spikes, hardly any within three steps: see test_spiking
} | {
    "full rank": lambda key: LowRankRNN(*SIZES, dt=DT, noise_std=0.1, random_gain=0.5, key=key),
    "delays": delayed_areas,
    "noisy inputs": lambda key: LeakyRNN(*SIZES, dt=DT, input_noise_std=0.1, train_tau=True, key=key),
    "fast weights": plastic(FastWeights(0.2, 30.0)),
    "trace": plastic(DifferentiablePlasticity(N_UNITS, initial_std=0.5, rate=0.2, key=KEY)),
    "start": lambda key: TrainableStart(LSTMNetwork(*SIZES, noise_std=0.1, key=key), (jnp.full(6, 0.2),) * 2),
    "encoded": lambda key: EncodedNetwork(
        GRUNetwork(4, 6, 3, noise_std=0.1, key=key),
        eqx.nn.MLP(3, 4, 5, 1, key=key),
        eqx.nn.Linear(3, 2, key=key),
        n_inputs=3,
    ),
    "encoded start": lambda key: EncodedStart(
        LeakyRNN(*SIZES, dt=DT, noise_std=0.1, key=key), [0, 2, 3], n_encoder=5, key=key
    ),
    "forced": lambda key: TeacherForced(GRUNetwork(1, 6, 2, noise_std=0.1, key=key), n_observed=1),
    "stacked": lambda key: StackedNetwork(
        [LSTMNetwork(3, 4, 4, key=key), LeakyRNN(4, 5, 2, dt=DT, noise_std=0.1, key=key)]
    ),
}
SHORT = (
    "delays",
    "noisy inputs",
    "trace",
    "start",
    "encoded",
    "encoded start",
    "forced",
    "stacked",
)  # a GRU is encoded
WITH_PROJECTIONS = ("gru", "lstm", "vanilla", "tanh", "two-areas", "low-rank", "encoded", "forced")


def trial_of(key):
    inputs = {"inputs": jax.random.normal(key, (N_STEPS, N_INPUTS))}
    spikes = jax.random.poisson(key, 2.0, (N_STEPS, 4)).astype(float).at[1, 0].set(jnp.nan)
    recordings = {"spikes": popsim.tasks.RecordedActivity(spikes, ~jnp.isnan(spikes))}
    return popsim.Trial((), inputs, (), popsim.Timeline(DT, N_STEPS), recordings=recordings)


def assert_axes_are_named(network, n_before=0):
    for path, names in network.parameter_axes.items():
        assert operator.attrgetter(path)(network).ndim == n_before + len(names), path


def assert_alike(found, expected):
    jax.tree.map(lambda *pair: np.testing.assert_allclose(*pair, rtol=2e-5, atol=1e-6), found, expected)


@eqx.filter_jit
def simulated(ensemble, trials):
    """States of members in trials, the slopes of all that is learned, and what steps of one member make.

    The latter are the states, the outputs and the activity after each step of the last member in the last
    trial, and a state with another activity, and with that which it had.
    """
    learned, rest = eqx.partition(ensemble, popsim.is_parameter(ensemble))

    @eqx.filter_vmap
    def states_of(model):
        return jax.vmap(lambda trial: popsim.simulate(model, trial, key=KEY))(trials)

    def loss(learned):
        states = states_of(eqx.combine(learned, rest))
        return jnp.sum(states.network.output**2), states

    slopes, states = eqx.filter_grad(loss, has_aux=True)(learned)
    network = jax.tree.map(lambda leaf: leaf[1] if eqx.is_array(leaf) else leaf, ensemble.network)
    hidden, found = network.init_for(jax.tree.map(lambda leaf: leaf[1], trials), key=KEY), []
    for t, row in enumerate(trials.inputs["inputs"][1]):
        hidden = network.step(row, hidden, key=jax.random.fold_in(popsim.key_stream(KEY, "steps"), t))
        found.append((NetworkState(hidden, network.read_out(hidden)), network.activity(hidden)))
    rates = network.activity(hidden)
    changed = network.with_activity(hidden, jnp.arange(float(rates.size)))
    steps = found, network.activity(changed), network.with_activity(changed, rates)
    return slopes, states, unit_activity(ensemble, states), steps


@pytest.mark.parametrize("name", mostly_in_full(BUILD, SHORT))
def test_a_simulation_keeps_what_steps_make_and_all_that_is_learned_gets_a_gradient(name):
    """Also of trials and members run at once; and the activity is one array that can be put back."""
    ensemble = popsim.make_ensemble(lambda key: popsim.NetworkModel(BUILD[name](key), dt=DT), 2, key=KEY)
    trials = jax.vmap(trial_of)(jax.random.split(KEY, 2))
    slopes, states, activity, (steps, other, back) = simulated(ensemble, trials)
    for t, (expected, rates) in enumerate(steps):
        found = jax.tree.map(lambda leaf, t=t: leaf[1, 1, t], states.network)
        for one, recorded in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=False):
            assert one.shape != recorded.shape or np.allclose(one, recorded, rtol=2e-5, atol=1e-6)
        assert_alike(found.output, expected.output)
        assert_alike(activity[1, 1, t], rates)
    np.testing.assert_array_equal(other, np.arange(rates.size))
    assert_alike(back, expected.hidden)
    for path, slope in jax.tree.leaves_with_path(slopes):
        assert np.all(np.isfinite(slope)), jax.tree_util.keystr(path)
        assert all(np.any(of_member) for of_member in slope), jax.tree_util.keystr(path)
    assert_axes_are_named(ensemble.network, n_before=1)


@pytest.mark.parametrize("name", mostly_in_full(BUILD, ["gru", "tanh", "noisy inputs", "stacked"]))
def test_noise_is_drawn_from_the_key_where_there_is_some(name):
    network, inputs = BUILD[name](KEY), jnp.ones(N_INPUTS)
    hidden = network.init(key=KEY)
    keys = jax.random.split(KEY, 2000)
    one_step = lambda key: network.activity(network.step(inputs, hidden, key=key))  # noqa: E731
    draws = eqx.filter_jit(jax.vmap(one_step))(keys)
    assert len(np.unique(draws, axis=0)) == 2000
    quiet = without_noise(network)
    exact = jax.jit(lambda: network.activity(quiet.step(inputs, hidden, key=KEY)))()
    spread = np.std(draws, axis=0)
    np.testing.assert_allclose(np.mean(draws, axis=0), exact, atol=4 * spread.max() / 2000**0.5 + 1e-6)
    jaxpr = str(jax.make_jaxpr(lambda key: quiet.step(inputs, hidden, key=key))(KEY))
    assert "random_bits" not in jaxpr
    within = getattr(network, "network", network)
    if isinstance(within, StackedNetwork) or not isinstance(
        getattr(within, "input_noise", NoNoise()), NoNoise
    ):
        return
    scale = (2 * within.dt / within.tau) ** 0.5 if hasattr(within, "tau") else 1.0
    np.testing.assert_allclose(spread, 0.1 * scale, rtol=0.06)


@pytest.mark.parametrize(
    "name", mostly_in_full(WITH_PROJECTIONS, ["gru", "vanilla", "tanh", "encoded", "forced"])
)
def test_projections_are_of_the_weights_and_a_current_is_a_bias(name, float64):
    """The gradient of a bias times the activity before a synapse is the gradient of its weight."""
    network = without_noise(BUILD[name](KEY))
    assert_axes_are_named(network)
    inputs, current = jax.random.normal(KEY, (N_INPUTS,)), jnp.ones(N_UNITS)

    @eqx.filter_jit
    def gradients(network):
        hidden = network.init(key=KEY)
        hidden = network.with_activity(hidden, jax.random.normal(KEY, network.activity(hidden).shape))
        step = NetworkStep(inputs, hidden, network.step(inputs, hidden, key=KEY))

        def output(network):
            return jnp.array([1.0, -2.0]) @ network.read_out(network.step(inputs, hidden, key=KEY))

        pairs = [
            (each.pre(network, step), each.post(network, step)) for each in network.projections().values()
        ]
        moved = network.with_unit_input(current).step(inputs, hidden, key=KEY)
        return eqx.filter_grad(output)(network), pairs, network.activity(moved) - network.activity(step.after)

    slopes, pairs, change = gradients(network)
    for projection, (pre, post) in zip(network.projections().values(), pairs, strict=True):
        weights, by_bias = projection.where(slopes)[projection.rows], projection.where_bias(slopes)
        assert weights.shape == (post.size, pre.size) and (np.any(weights) or name == "two-areas")
        found = np.where(weights != 0, np.outer(by_bias[projection.bias_rows], pre), 0)
        np.testing.assert_allclose(found, weights, rtol=1e-9, atol=1e-12)
    assert [*network.projections()][-2:] == ["input", "readout"] and np.all(change != 0)


REFUSED = {"n_inputs": -1, "n_outputs": -1, "noise_std": -0.1, "output_bias": np.nan}


@pytest.mark.parametrize("name", mostly_in_full(NETWORKS, ["gru", "tanh", "vanilla"]))
@pytest.mark.parametrize("argument", REFUSED)
def test_numbers_that_make_no_network_are_refused_by_name(name, argument):
    sizes = {"n_inputs": 3, "n_units": 6, "n_outputs": 2}
    with pytest.raises(ValueError, match=f"`{argument}|`inputs"):
        build_network(name, **(sizes | {argument: REFUSED[argument]}), dt=DT, key=KEY)
