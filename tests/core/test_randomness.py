import ast
import functools
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
from popsim.experiments.run_options import check_size
from popsim.randomness import as_key, key_of_seed, seed_key, trial_keys
from popsim.session import separate_trials
from popsim.tasks.library import TASKS
from popsim.training import TrainState, accumulate_gradients, build_train_step_fn, sgd, training_trials
from popsim.training.population_updates import selection as selection_rules
from popsim.training.steps.member_step import trials_of_batch
from popsim.training.supervised import supervised_batches


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


def takes_typed_keys():
    """By name, further public functions that take a key of `jax.random.key`, one for each way of drawing."""
    analysis, distributions, noise = popsim.analysis, popsim.distributions, popsim.noise
    ensemble = popsim.make_ensemble(small_training.build, 2, key=jax.random.key(0))
    model, task = popsim.member(ensemble, 0), small_training.RunningSum()
    scores, line, states = jnp.arange(4.0), jnp.ones(3), np.random.default_rng(0).normal(size=(2, 9, 4))
    selection = popsim.training.PopulationBasedTraining(every=1)
    values = {"rate": jnp.ones(4)}
    draws = (
        distributions.Uniform(0.0, 1.0),
        distributions.Normal(0.0, 1.0),
        distributions.Choice([0.0, 1.0]),
        distributions.TruncatedExponential(0.0, 1.0, 1.0),
        popsim.Workspace([0.0, 0.0], [1.0, 1.0]),
    )
    ways = {type(one).__name__: lambda key, one=one: one.sample(key=key) for one in draws}
    for one in (noise.GaussianNoise(0.1), noise.MotorNoise(0.1, 0.1)):
        ways[type(one).__name__] = lambda key, one=one: one(line, key=key)
    for one in (selection_rules.Truncation(), selection_rules.BinaryTournament()):
        ways[type(one).__name__] = lambda key, one=one: one.parents(scores, key=key)
    for one in (selection_rules.Perturb(), selection_rules.Resample(draws[0])):
        ways[type(one).__name__] = lambda key, one=one: one(line, key=key)
    for one in (popsim.tasks.SumOfSinusoids(), popsim.tasks.RandomWalk()):
        ways[type(one).__name__] = lambda key, one=one: one(jnp.linspace(0, 1, 5), draws[-1], key=key)
    plan = popsim.TrialPlan((popsim.Epoch("all"),), duration=0.1, dt=0.01)
    apart = np.asarray([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]])
    return ways | {
        "TrialPlan": lambda key: plan.draw(key=key),
        "LeakyRNN": lambda key: popsim.networks.LeakyRNN(1, 2, 1, key=key),
        "GRUNetwork": lambda key: popsim.networks.GRUNetwork(1, 2, 1, key=key),
        "dale_weights": lambda key: popsim.networks.dale_weights(np.asarray([1.0, -1.0] * 4), key=key),
        "select_parents": lambda key: selection_rules.select_parents(selection, scores, key=key),
        "explored": lambda key: selection_rules.values_after_selection(
            selection, values, values, jnp.arange(4), jnp.arange(4), key=key
        ),
        "states_with_noise": lambda key: analysis.dynamics.states_with_noise(states, 2, key=key),
        "mixtures_of_states": lambda key: analysis.dynamics.mixtures_of_states(states, 2, key=key),
        "bootstrap_members": lambda key: analysis.statistics.bootstrap_members(states, key=key),
        "paired_comparison": lambda key: analysis.statistics.paired_comparison(
            np.arange(3.0), np.ones(3), key=key
        ),
        "matrix_permutation_test": lambda key: analysis.similarity.matrix_permutation_test(
            apart, apart, key=key
        ),
        "gaussian_singular_values": lambda key: analysis.trainables.gaussian_singular_values(2, 2, key=key),
        "loss_along_line": lambda key: analysis.trainables.loss_along_line(ensemble, ensemble, task, key=key),
        "network step": lambda key: model.network.step(jnp.ones(1), jnp.zeros(5), key=key),
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


UNSOUND = {"rbg": r"under jax\.vmap it draws other numbers", "unsafe_rbg": r"under jax\.vmap it draws other"}


@pytest.mark.slow
@pytest.mark.parametrize("implementation", every_nth(UNSOUND, 2))
def test_keys_whose_draws_depend_on_how_they_are_mapped_are_refused_everywhere(implementation):
    key = jax.random.key(0, impl=implementation)
    places = takes_keys() | takes_typed_keys()
    for name, function in places.items():
        with pytest.raises(
            ValueError, match=f"got one of {implementation}: {UNSOUND[implementation]}"
        ) as refusal:
            function(key)
        assert re.match(r"`(key|rng|root_rng)` must be a key such as", str(refusal.value)), name
        assert "\n" not in str(refusal.value)


@pytest.mark.full
@pytest.mark.slow
def test_every_place_takes_sound_keys():
    for function in takes_typed_keys().values():
        function(jax.random.key(0))


@pytest.mark.parametrize("implementation", every_nth(UNSOUND, 2))
@pytest.mark.parametrize("name", every_nth(TASKS, 4))
def test_every_task_refuses_keys_of_unsound_generators(name, implementation):
    task = TASKS[name]()
    with pytest.raises(ValueError, match=f"got one of {implementation}"):
        jax.eval_shape(lambda key: task.trial(batch=0, key=key), jax.random.key(0, impl=implementation))


def generator(name, **changed):
    """An implementation of keys that is JAX's default one but for what is changed."""
    parts = {part: getattr(threefry_prng_impl, part) for part in ("seed", "split", "random_bits", "fold_in")}
    return define_prng_impl(key_shape=(2,), name=name, tag=name, **parts | changed)


ALWAYS = ("bandit", "drifting-bandit")  # whose environments draw from their key itself, and from parts of it


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ALWAYS else pytest.mark.full) for name in TASKS]
)
def test_no_two_draws_of_a_trial_are_from_one_key(name):
    """Neither of the task, nor of its environment, a policy and a noisy network at all of the time steps."""
    keys = []

    def random_bits(key, *form):
        jax.debug.callback(lambda data: keys.append(data.tobytes()), key)
        return threefry_prng_impl.random_bits(key, *form)

    key = jax.random.key(0, impl=generator("recording", random_bits=random_bits))
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

    as_key(key)  # which judges the implementation by draws
    jax.effects_barrier()
    keys.clear()
    jax.block_until_ready(run(key))
    jax.effects_barrier()
    assert len(set(keys)) == len(keys) > 0


@pytest.mark.full
def test_implementations_are_judged_by_their_draws():
    commuting = generator("commuting", fold_in=lambda key, data: key + data.astype(np.uint32))
    with pytest.raises(
        ValueError, match="`key` must be .* folding in 1 and then 2 gives the same key as 2 and"
    ):
        as_key(jax.random.key(0, impl=commuting))
    sound = jax.random.key(0, impl=generator("sound"))
    assert as_key(sound) is sound
    np.testing.assert_array_equal(
        bits(popsim.key_stream(sound, "start")), bits(popsim.key_stream(jax.random.key(0), "start"))
    )


@pytest.mark.parametrize(
    "function",
    [
        jax.jit(as_key),
        jax.vmap(as_key, axis_size=2, in_axes=None),
        functools.partial(jax.eval_shape, as_key),
        lambda key: jax.grad(lambda x: x * jax.random.normal(as_key(key)))(1.0),
    ],
    ids=["jit", "vmap", "eval_shape", "grad"],
)
def test_implementations_are_judged_once_also_while_traced(function):
    randomness._unsound.cache_clear()
    for seed in range(2):
        with pytest.raises(ValueError, match="got one of rbg"):
            function(jax.random.key(seed, impl="rbg"))
    assert randomness._unsound.cache_info().misses == 1


@pytest.mark.parametrize("implementation", every_nth(UNSOUND, 2))
def test_a_seed_names_the_same_key_whatever_the_default_is(implementation):
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
    with jax.default_prng_impl(implementation):
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


@pytest.mark.parametrize("bad", [3, None, "0", jax.random.split(jax.random.key(0)), np.zeros(3, np.uint32)])
def test_what_is_no_key_is_refused(as_users_run, bad):
    with pytest.raises(ValueError, match="`key` must be one key, such as jax.random.key"):
        as_key(bad)


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
