import ast
import itertools
import pathlib
import re
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_training
from jax.extend.random import define_prng_impl, threefry_prng_impl
from short_form import every_nth
from small_reaches import small_reach_setup
from small_training import KEY

import popsim
import popsim.environment
import popsim.policies
from popsim import randomness
from popsim._checks import is_traced
from popsim.analysis._arrays import numpy_generator
from popsim.experiments import EXPERIMENTS
from popsim.experiments.memory import check_size
from popsim.randomness import as_key, key_of_seed, seed_key, trial_keys
from popsim.session import separate_trials
from popsim.tasks.library import TASKS
from popsim.training import TrainState, accumulate_gradients, build_train_step_fn, sgd, training_trials
from popsim.training.steps.member_step import trials_of_batch
from popsim.training.supervised.examples import supervised_batches


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


def test_training_trials_do_not_depend_on_the_size_of_the_batch(getkey):
    task, _ = small_reach_setup()
    key = getkey()
    few, many = (training_trials(task, size, batch=0, member_id=2, key=key) for size in (3, 7))
    other = training_trials(task, 3, batch=0, member_id=1, key=key)
    np.testing.assert_array_equal(few.init.position, many.init.position[:3])
    assert not np.any(few.init.position == other.init.position)
    assert len(np.unique(np.concatenate([many.init.position, many.targets.position[:, 0]]))) == 28


def takes_keys():
    """By name, public functions that take a key: from a key to what they return."""
    task = small_training.RunningSum()
    model = small_training.build(jax.random.key(0))
    ensemble = popsim.make_ensemble(small_training.build, 2, key=jax.random.key(0))
    trials = task.validation_trials()
    trial = jax.tree.map(lambda leaf: leaf[0], trials)

    def one_step(key):
        def loss_fn(model, state, rng):
            return jnp.mean(jax.random.normal(rng) * model.bias), rng, ()

        linear = popsim.member(ensemble, 0).network.readout
        return build_train_step_fn(loss_fn)(TrainState.initial_state(linear, sgd(1.0), key))

    def gradients(key):
        def loss_fn(params, part, rng):
            return jnp.mean(jax.random.normal(rng) * params.bias), ((), ())

        state = TrainState.initial_state(model.network.readout, sgd(1.0), key)
        return [
            accumulate_gradients(state, jnp.ones(4), key, 2, loss_fn, use_scan) for use_scan in (False, True)
        ]

    settings = popsim.member_grid(2, tau=[0.05])
    return {
        "TaskTrainer": lambda key: small_training.train(2, key=key)[0],
        "make_ensemble": lambda key: popsim.make_ensemble(small_training.build, 2, key=key),
        "build_members": lambda key: popsim.build_members(small_training.build, settings, key=key),
        "evaluate": lambda key: popsim.evaluate(model, task, key=key),
        "evaluate_ensemble": lambda key: popsim.evaluate_ensemble(ensemble, task, key=key),
        "simulate": lambda key: popsim.simulate(model, trial, key=key),
        "simulate under vmap": lambda key: jax.vmap(lambda own: popsim.simulate(model, trial, key=own))(
            jax.random.split(key)
        ),
        "build_train_step_fn": one_step,
        "accumulate_gradients": gradients,
        "training_trials": lambda key: training_trials(task, 2, batch=0, member_id=0, key=key),
        "supervised_batches": lambda key: next(supervised_batches(task, 2, key=key)),
        "sample_trials": lambda key: popsim.sample_trials(task, 2, batch=0, key=key),
        "key_stream": lambda key: popsim.key_stream(key, "start"),
        "analysis": lambda key: numpy_generator(key).random(3),
    }


@pytest.mark.slow
@pytest.mark.full
def test_from_legacy_keys_the_same_is_drawn_as_from_typed_ones():
    def drawn(function, key):
        leaves = [leaf for leaf in jax.tree.leaves(function(key)) if hasattr(leaf, "dtype")]
        return [bits(leaf) if small_training.is_key(leaf) else leaf for leaf in leaves]

    for function in takes_keys().values():
        legacy, typed = (drawn(function, of(3)) for of in (jax.random.PRNGKey, jax.random.key))
        small_training.assert_same(legacy, typed)


@pytest.mark.parametrize("name", every_nth(TASKS, 8))
def test_every_task_takes_legacy_keys(as_users_run, name):
    task = TASKS[name]()
    typed, legacy = (
        jax.eval_shape(lambda key: task.trial(batch=0, key=key), of(3))
        for of in (jax.random.key, jax.random.PRNGKey)
    )
    assert jax.tree.map(str, legacy) == jax.tree.map(str, typed)


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["rbg", "unsafe_rbg"])
def test_keys_whose_draws_depend_on_how_they_are_mapped_are_refused_everywhere(implementation):
    key = jax.random.key(0, impl=implementation)
    for name, function in takes_keys().items():
        with pytest.raises(ValueError, match=f"got one of {implementation}, whose draws depend") as refusal:
            function(key)
        assert re.match(r"`(key|rng|root_rng)` must be a key such as", str(refusal.value)), name
        assert "\n" not in str(refusal.value)


ALWAYS = ("bandit", "drifting-bandit")  # whose environments draw from their key itself, and from parts of it


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ALWAYS else pytest.mark.full) for name in TASKS]
)
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
        experiment = EXPERIMENTS["center-out"](n_members=1, n_units=2, seed=3)
        return (
            bits(seed_key(3)),
            bits(key_of_seed(3, "training")),
            bits(experiment.key("ensemble")),
            experiment.build_task().validation_trials().init.position,
            small_training.RunningSum().describe().inputs,
            leaky.with_dt(0.01).recurrent_weights,
            check_size(experiment),
        )

    leaky = popsim.networks.LeakyRNN(1, 2, 1, tau=0.1, dt=0.02, key=jax.random.key(0))
    usual = drawn()
    with jax.default_prng_impl("rbg"):
        small_training.assert_same(drawn(), usual)
        with pytest.raises(ValueError, match="`key` must be"):
            as_key(jax.random.PRNGKey(0))


@pytest.mark.full
def test_all_keys_that_the_library_makes_name_their_implementation():
    folder = pathlib.Path(popsim.__file__).parent
    paths = [path for part in (".", "tasks", "analysis") for path in (folder / part).rglob("*.py")]
    calls = [
        (path.name, {keyword.arg for keyword in node.keywords})
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("jax.random.key", "jax.random.PRNGKey")
    ]
    assert {name for name, _ in calls} == {"randomness.py", "transformations.py"}
    assert all("impl" in keywords for _, keywords in calls)
    assert len(paths) > 200


class Outside(small_training.RunningSum):
    """A task whose trials depend on more than their key."""

    draw: object = eqx.field(static=True, default=None)

    def trial(self, *, batch, key):
        trial = super().trial(batch=batch, key=key)
        return eqx.tree_at(lambda t: t.inputs, trial, trial.inputs + self.draw())


COUNTER, KEYS = itertools.count(1), [jax.random.key(0)]


def count():
    return float(next(COUNTER))


def of_own_key():
    KEYS.append(jax.random.fold_in(KEYS[-1], 0))
    return jax.random.uniform(KEYS[-1])


@pytest.mark.parametrize("draw", [count, of_own_key, lambda: time.perf_counter() % 1.0])
def test_a_task_that_returns_other_trials_for_the_same_key_is_refused(draw):
    with pytest.raises(ValueError, match="`trial` of the task must return the same for the same `key`"):
        small_training.train(task=Outside(draw=draw))


@pytest.mark.parametrize(
    "draw",
    every_nth(
        [
            lambda: jnp.full(2, count()),
            lambda: jnp.ones(2) * count(),
            lambda: np.full(2, count()),
            lambda: jnp.ones(next(COUNTER)),
            lambda: jax.jit(lambda x: x + count())(jnp.ones(2)),
            lambda: jax.lax.cond(True, lambda: jnp.full(1, count()), lambda: jnp.zeros(1)),
            lambda: popsim.Timeline(dt=0.01 * count(), n_steps=2),
            lambda: jnp.linspace(0, 1, 2**20)[next(COUNTER)],
        ],
        2,
    ),
    ids=["array", "number", "numpy array", "size", "within jit", "within cond", "static field", "place"],
)
def test_members_that_differ_for_the_same_key_are_refused(draw):
    def build(key):
        return eqx.tree_at(lambda m: m.network.bias, small_training.build(key), draw())

    with pytest.raises(ValueError, match="`build` must return the same for the same `key`"):
        popsim.make_ensemble(build, 2, key=jax.random.key(0))
    with pytest.raises(ValueError, match="`build` must return the same for the same `key`"):
        popsim.build_members(build, popsim.member_grid(2), key=jax.random.key(0))


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
    ids = jnp.arange(2)
    usual, shifted = (
        trials_of_batch(Outside(draw=draw), 2, ids[0], member_ids=ids, shared_trials=False, key=KEY).inputs
        for draw in (float, lambda: jax.random.uniform(fixed["key"]))
    )
    np.testing.assert_array_equal(shifted, usual + jax.random.uniform(fixed["key"]))
