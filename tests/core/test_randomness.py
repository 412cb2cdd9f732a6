import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_training
from jax.extend.random import define_prng_impl, threefry_prng_impl
from short_form import mostly_in_full
from small_training import KEY

import popsim
import popsim.environment
import popsim.policies
from popsim import randomness
from popsim._shared.checks import is_traced
from popsim.analysis._arrays import numpy_generator
from popsim.randomness import as_key, key_of_seed, seed_key, trial_keys
from popsim.session import separate_trials
from popsim.tasks.library import TASKS
from popsim.training import TrainState, build_train_step_fn, sgd


def bits(keys):
    return np.asarray(jax.random.key_data(keys))


def n_different(*keys):
    return len(np.unique(np.concatenate([bits(k).reshape(-1, 2) for k in keys]), axis=0))


def test_streams_of_different_names_differ_and_of_one_name_agree(getkey):
    key, other = getkey(), getkey()
    streams = [popsim.key_stream(k, name) for k in (key, other) for name in ("start", "target", "network")]
    assert n_different(*streams) == 6
    np.testing.assert_array_equal(bits(popsim.key_stream(key, "start")), bits(streams[0]))


def test_trial_keys_do_not_depend_on_the_number_of_trials(getkey):
    key = getkey()
    few, many = trial_keys(key, 3, member_id=1), trial_keys(key, 10, member_id=1)
    np.testing.assert_array_equal(bits(few), bits(many)[:3])


def test_members_and_trials_and_shared_trials_have_keys_of_their_own(getkey):
    key = getkey()
    assert n_different(*(trial_keys(key, 10, member_id=member) for member in (None, 0, 1, 2))) == 40


def takes_keys():
    """By name, public functions that take a key: from a key to what they return."""
    task = small_training.RunningSum()
    model = small_training.build(jax.random.key(0))
    ensemble = popsim.make_ensemble(small_training.build, 2, key=jax.random.key(0))
    trial = jax.tree.map(lambda leaf: leaf[0], task.validation_trials())

    def one_step(key):
        def loss_fn(model, state, rng):
            return jnp.mean(jax.random.normal(rng) * model.bias), rng, ()

        linear = popsim.member(ensemble, 0).network.readout
        return build_train_step_fn(loss_fn)(TrainState.initial_state(linear, sgd(1.0), key))

    return {
        "TaskTrainer": lambda key: small_training.train(2, key=key)[0],
        "make_ensemble": lambda key: popsim.make_ensemble(small_training.build, 2, key=key),
        "evaluate_ensemble": lambda key: popsim.evaluate_ensemble(ensemble, task, key=key),
        "simulate under vmap": lambda key: jax.vmap(lambda own: popsim.simulate(model, trial, key=own))(
            jax.random.split(key)
        ),
        "build_train_step_fn": one_step,
        "sample_trials": lambda key: popsim.sample_trials(task, 2, batch=0, key=key),
        "analysis": lambda key: numpy_generator(key).random(3),
    }


@pytest.mark.slow
def test_keys_of_the_older_form_draw_alike_and_unsound_ones_are_refused_everywhere():
    def drawn(function, key):
        leaves = [leaf for leaf in jax.tree.leaves(function(key)) if hasattr(leaf, "dtype")]
        return [bits(leaf) if small_training.is_key(leaf) else leaf for leaf in leaves]

    for name, function in takes_keys().items():
        legacy, typed = (drawn(function, of(3)) for of in (jax.random.PRNGKey, jax.random.key))
        small_training.assert_same(legacy, typed)
        with pytest.raises(ValueError, match="got one of rbg, whose draws depend on how") as refusal:
            function(jax.random.key(0, impl="rbg"))
        assert re.match(r"`(key|rng|root_rng)` must be a key such as", str(refusal.value)), name


ALWAYS = ("bandit", "drifting-bandit")  # whose environments draw from their key itself, and from parts of it


@pytest.mark.parametrize("name", mostly_in_full(TASKS, ALWAYS))
def test_no_two_draws_of_a_trial_are_from_one_key(name, monkeypatch):
    """Neither of the task, nor of its environment, a policy and a noisy network at all of the time steps."""
    keys = []

    def random_bits(key, *form):
        jax.debug.callback(lambda data: keys.append(data.tobytes()), key)
        return threefry_prng_impl.random_bits(key, *form)

    parts = {part: getattr(threefry_prng_impl, part) for part in ("seed", "split", "fold_in")}
    recording = define_prng_impl(
        key_shape=(2,), name="recording", tag="rec", random_bits=random_bits, **parts
    )
    key = jax.random.key(0, impl=recording)
    monkeypatch.setattr(
        randomness, "IMPLEMENTATIONS", {*randomness.IMPLEMENTATIONS, jax.random.key_impl(key)}
    )
    task = TASKS[name]()
    trials = jax.eval_shape(lambda: separate_trials(popsim.sample_trials(task, 1, batch=0, key=KEY)))
    actions = None if trials.environment is None else trials.environment.actions

    @jax.jit
    def run(key):
        trial_key, noise_key = jax.random.split(key)
        trial, dt = task.trial(batch=0, key=trial_key), trials.timeline.dt
        if not isinstance(actions, popsim.environment.Discrete):
            return trial
        sizes = popsim.n_network_inputs(trials), 2, actions.n
        network = popsim.networks.LeakyRNN(*sizes, tau=0.5, noise_std=0.1, dt=dt, key=KEY)
        policy = popsim.policies.Categorical(actions.n)
        return popsim.simulate(popsim.NetworkModel(network, policy=policy, dt=dt), trial, key=noise_key)

    jax.block_until_ready(run(key))
    jax.effects_barrier()
    assert len(set(keys)) == len(keys) > 0


def test_a_seed_names_the_same_key_whatever_the_default_is():
    def drawn():
        return (
            bits(seed_key(3)),
            bits(key_of_seed(3, "training")),
            small_training.RunningSum().describe().inputs,
            leaky.with_dt(0.01).recurrent_weights,
        )

    leaky = popsim.networks.LeakyRNN(1, 2, 1, tau=0.1, dt=0.02, key=jax.random.key(0))
    usual = drawn()
    with jax.default_prng_impl("rbg"):
        small_training.assert_same(drawn(), usual)
        with pytest.raises(ValueError, match="`key` must be"):
            as_key(jax.random.PRNGKey(0))


def test_what_is_drawn_once_and_for_all_is_given_to_all():
    """A number that is drawn before is a setting like any other, and nothing is drawn twice as often."""
    calls, n_traced, fixed = (
        [],
        [],
        {"key": jax.random.key(5), "weights": jnp.asarray(np.random.randn(5), "f")},
    )

    def masked():
        return jnp.where(jax.random.bernoulli(fixed["key"], shape=(5,)), fixed["weights"], 0.0)

    def build(key):
        calls.append(key)
        return eqx.tree_at(lambda m: m.network.bias, small_training.build(key), masked())

    for _ in range(2):
        ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
        np.testing.assert_array_equal(ensemble.network.bias, np.stack([masked(), masked()]))
        n_traced.append(sum(is_traced(call) for call in calls))
    assert n_traced[0] + 1 == n_traced[1] and len(calls) - n_traced[1] == 2  # compiled once
