"""What of a model is learned and what is a constant, and what functions that pick parts of it pick."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import small_training

import popsim
from popsim.losses import WeightPenalty
from popsim.networks import GRUNetwork, LeakyRNN
from popsim.parameters import picked_parameters
from popsim.store import leaf_names
from popsim.training import TrainState, build_train_step_fn, inject_hyperparams, select_trainables
from popsim.training.loop.batches import training_phases

READOUT = {"readout.weight", "readout.bias"}
LEAKY_WEIGHTS = {"recurrent_weights", "input_weights", "bias"} | READOUT
GRU_WEIGHTS = {f"cell.{name}" for name in ("weight_ih", "weight_hh", "bias", "bias_n")} | READOUT
KEY = jax.random.key(0)
DECAYING = inject_hyperparams(optax.adamw)(1e-2, weight_decay=0.1)


def named(mask):
    """The names of the leaves that are True."""
    leaves = jax.tree.leaves_with_path(mask)
    return {jax.tree_util.keystr(path, simple=True, separator=".") for path, chosen in leaves if chosen}


def parameters(model):
    return named(popsim.is_parameter(model))


def picked(model, where):
    return named(picked_parameters(model, where, argument="`where`"))


def changed(before, after):
    return named(jax.tree.map(lambda old, new: bool(np.any(old != new)), before, after))


def shapes_of(build, *arguments, **settings):
    return eqx.filter_eval_shape(lambda: build(*arguments, **settings, key=jax.random.key(0)))


def muscled_loop(*, key):
    """One of everything that a model of popsim may hold."""
    channels = {"touch": popsim.SensoryChannel(popsim.proprioception, noise=popsim.GaussianNoise(0.1))}
    return popsim.SensorimotorLoop(
        GRUNetwork(2 + 12, 3, 6, noise_std=0.1, output_fn=jax.nn.sigmoid, key=key),
        popsim.plants.arm26(),
        channels,
        popsim.MotorNoise(0.1, 0.01),
        scaling={"target": popsim.Scaling(jnp.zeros(2), 0.1)},
        interventions=(popsim.interventions.CurlField(), popsim.interventions.SilenceUnits()),
        dt=0.01,
    )


def trial():
    timeline = popsim.Timeline(dt=0.01, n_steps=4)
    return popsim.Trial((), jnp.ones((4, 1)), (), timeline)


class Rates(popsim.networks.AbstractNetwork):
    """A network of one's own: what is learned and what is not lies side by side."""

    n_inputs: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)
    weights: jax.Array
    mask: jax.Array
    start: tuple[jax.Array, jax.Array]
    noise: popsim.noise.AbstractNoise
    constants = ("mask", "start")

    def init(self, *, key):
        return self.start[0]

    def step(self, inputs, hidden, *, key):
        return self.noise(jnp.tanh((self.mask * self.weights) @ hidden), key=key)

    def read_out(self, hidden):
        return hidden


def rates():
    start = jnp.ones(2), jnp.zeros(2)
    network = Rates(2, 2, 3 * jnp.ones((2, 2)), jnp.eye(2), start, popsim.GaussianNoise(0.1))
    return popsim.NetworkModel(network, dt=0.01)


@pytest.mark.parametrize("train_tau", [True, False])
def test_of_networks_the_weights_are_learned_and_tau_where_that_is_asked_for(train_tau):
    network = shapes_of(LeakyRNN, 2, 3, 1, noise_std=0.1, train_tau=train_tau)
    assert parameters(network) == LEAKY_WEIGHTS | ({"tau"} if train_tau else set())
    assert parameters(shapes_of(GRUNetwork, 2, 3, 1, noise_std=0.1)) == GRU_WEIGHTS


def test_of_a_body_its_muscles_senses_noise_and_scalings_nothing_is_learned():
    model = shapes_of(muscled_loop)
    weights = {f"network.{name}" for name in GRU_WEIGHTS}
    assert weights == parameters(model) == picked(model, lambda m: m) == picked(model, None)
    ensemble = shapes_of(popsim.make_ensemble, lambda key: muscled_loop(key=key), 2)
    assert parameters(ensemble) == weights and ensemble.network.readout.bias.shape == (2, 6)
    plant = model.plant
    for part in (plant, plant.skeleton, plant.muscle, plant.path, model.channels, model.scaling):
        assert jax.tree.leaves(part) and not parameters(part)


class Bare(eqx.Module):
    weights: jax.Array
    inner: eqx.Module
    others: list[jax.Array]


class NamesInAField(Bare):
    constants: tuple[str, ...] = eqx.field(static=True)


def naming(constants):
    """A class of modules with these constants."""
    return type("Naming", (Bare,), {"constants": constants, "__module__": __name__})


NamesByItself = naming(property(lambda self: frozenset({"weights", "others"})))
NamesAll = naming("all")


def test_a_module_of_ones_own_names_its_constants(getkey):
    parts = jnp.ones(2), eqx.nn.Linear(1, 1, key=getkey()), [jnp.ones(1), jnp.ones(1)]
    weights, inner, others = {"weights"}, {"inner.weight", "inner.bias"}, {"others.0", "others.1"}
    assert parameters(Bare(*parts)) == weights | inner | others
    assert parameters(naming(["inner"])(*parts)) == weights | others
    assert parameters(NamesInAField(*parts, constants=("weights",))) == inner | others
    assert parameters(NamesByItself(*parts)) == inner
    assert parameters(NamesAll(*parts)) == set()
    within = Bare(parts[0], NamesByItself(*parts), [NamesAll(*parts)])
    assert parameters(within) == weights | {"inner.inner.weight", "inner.inner.bias"}
    assert parameters(NamesAll(parts[0], Bare(*parts), [])) == set()
    assert parameters(rates()) == {"network.weights"}


@pytest.mark.parametrize("constants", ["weight", ("weights", "wieght"), jnp.ones(2)])
def test_constants_that_are_no_fields_are_refused_naming_the_module(constants):
    body = {"__annotations__": {"weights": jax.Array}, "__module__": __name__, "constants": constants}
    odd = type("Odd", (eqx.Module,), body)
    with pytest.raises(ValueError, match="`constants` of Odd must be 'all'.*weights.*another name"):
        popsim.is_parameter([odd(jnp.ones(1))])


def test_numbers_of_other_kinds_are_no_parameters():
    half, double = jnp.ones(1, "float16"), np.ones(1)
    floating = {"single": jnp.ones(1), "half": half, "numpy": double, "complex": jnp.ones(1, complex)}
    others = [jnp.arange(3), jnp.ones(2, bool), KEY, np.arange(2), 0.5, None, jax.nn.relu, "text"]
    tree = floating, others
    assert parameters(tree) == {f"0.{name}" for name in floating}
    for nothing in (lambda m: m[1], lambda m: [m[1][0], m[1][2], m[1][5], m[1][6]]):
        with pytest.raises(ValueError, match="`where` must pick at least one parameter"):
            picked(tree, nothing)


@pytest.mark.parametrize(
    "where, expected",
    [
        (lambda m: m.network, {"weights"}),
        (lambda m: m.network.mask, {"mask"}),
        (lambda m: m.network.noise.std, {"noise.std"}),
        (lambda m: [m.network.mask, {"all of it": m}], {"weights", "mask"}),
        (lambda m: (m.network, m.network.start), {"weights"}),  # the tuple is a part of the model
        (lambda m: (m.network, [*m.network.start]), {"weights", "start.0", "start.1"}),
        (lambda m: (m.network.noise, m.network), {"weights"}),
        (lambda m: [leaf for leaf in jax.tree.leaves(m) if leaf.shape[-2:] == (2, 2)], {"weights", "mask"}),
        (lambda m: eqx.filter(m.network, eqx.is_inexact_array), {"weights"}),
    ],
)
def test_arrays_are_picked_in_any_case_and_of_parts_the_parameters(where, expected):
    model, names = rates(), {f"network.{name}" for name in expected}
    ensemble = jax.tree.map(lambda leaf: np.stack(3 * [leaf]), model)
    for own in (model, ensemble, eqx.filter_eval_shape(rates)):
        assert picked(own, where) == names
    params, rest = select_trainables(model, where)
    assert set(leaf_names(params)) == names and eqx.tree_equal(eqx.combine(params, rest), model)
    numbers = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])
    np.testing.assert_allclose(WeightPenalty(where)((), trial(), model), numbers @ numbers, rtol=1e-6)


@pytest.mark.parametrize(
    "where, message",
    [
        (lambda m: m.no_such_part, "parts of the NetworkModel.*no_such_part"),
        (lambda m: m.dt, "parts of the NetworkModel, got: 0.01"),
        (lambda m: m.network.weights[:1], r"parts of the NetworkModel.*shape \(1, 2\)"),
        (lambda m: rates().network, r"parts of the NetworkModel.*shape \(2, 2\).*another model"),
        (lambda m: m.network.noise, "at least one parameter.*network.tau"),
        (lambda m: None, "at least one parameter"),
    ],
)
def test_a_pick_that_is_no_part_or_no_parameter_is_refused(where, message):
    with pytest.raises(ValueError, match=f"`where_train` must pick {message}"):
        select_trainables(rates(), where)
    with pytest.raises(ValueError, match=f"`where` of WeightPenalty must pick {message}"):
        jax.eval_shape(lambda weights: WeightPenalty(where)((), trial(), rates()), jnp.ones(2))


def test_a_python_number_is_refused_where_it_is_picked_by_itself():
    model = Bare(jnp.ones(2), Bare(jnp.ones(1), eqx.nn.Identity(), [5.0]), [0.5, 2])
    both = {"weights", "inner.weights"}
    assert picked(model, lambda m: m) == picked(model, lambda m: (m.weights, m.inner, m.others)) == both
    assert picked(model, lambda m: (m.weights, None, m.others[1])) == {"weights"}
    with pytest.raises(ValueError, match=r"Python number 5.0 at \.inner\.others\[0\].*asarray\(5.0\)"):
        picked(model, lambda m: (m.weights, [m.inner.others[0]]))


def trained(model, optimizer, where_train=small_training.network):
    """After a step of training on one trial, without a task."""

    def loss_fn(model, state, rng):
        states = popsim.simulate(model, trial(), key=rng)
        return jnp.mean((states.network.output - 1.0) ** 2), state, ()

    state = TrainState.initial_state(model, optimizer, jax.random.key(0), where_train=where_train)
    return build_train_step_fn(loss_fn)(state)[0].model


def test_decay_spares_constants_and_a_time_constant_and_a_noise_are_trained_where_their_arrays_are_picked():
    model = small_training.build(KEY)
    assert changed(model, trained(model, DECAYING)) == parameters(model)
    assert not model.network.train_tau
    after = trained(model, DECAYING, lambda m: (m.network.tau, m.network.noise.std))
    assert changed(model, after) == {"network.tau", "network.noise.std"}


def test_what_an_argument_says_is_learned_is_named_once_if_no_phase_selects_it():
    def build(key):
        policy = popsim.policies.Gaussian(2, std=0.5, learns_std=True)
        start = popsim.networks.TrainableStart(LeakyRNN(1, 3, 2, train_tau=True, key=key))
        return popsim.NetworkModel(start, policy=policy, dt=0.01)

    model = popsim.make_ensemble(build, 2, key=KEY)

    def begin(*where):
        where_any, _ = training_phases(model, dict(enumerate(where)))
        TrainState.initial_ensemble(model, optax.sgd(0.1), KEY, where_train=where_any)

    for left_out, rest in (
        ("policy.log_std`, by `learns_std=True`", lambda m: m.network),
        (
            "network.network.tau`, by `train_tau=True`",
            lambda m: (m.policy, m.network.network.bias, m.network.initial_hidden),
        ),
        ("network.initial_hidden`, by `initial_hidden`", lambda m: (m.policy, m.network.network)),
    ):
        message = f"`where_train` leaves out what is to be learned: `model.{left_out}"
        with pytest.warns(UserWarning, match=message) as seen:
            begin(rest, rest)
        assert len(seen) == 1
        begin(rest, lambda m: m)  # warnings are errors here
