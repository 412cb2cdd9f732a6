"""What a network puts out against what it should, which choice that is, and what its weights cost."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from central_differences import assert_gradients_agree
from loss_values import values_and_steps
from relay import DT, reach, relay_loop

import popsim
from popsim import OutputTarget, choice_accuracy, correct_choice, output_choice
from popsim.losses import ChoiceError, CrossEntropy, InWindow, L1Distance, OutputError, WeightPenalty

N_STEPS = 6
COUNTS = np.array([0.0, 1.0, 0.5, 2.0, 0.0, 1.0])
EARLY = InWindow(popsim.windows.Between(0.0, 3 * DT))
RIGHT = np.array([0, 1, 0, 2, 2, 1])


@functools.cache
def random_run():
    key = jax.random.key(0)
    network = popsim.networks.LeakyRNN(1, 4, 3, tau=0.05, dt=DT, key=key)
    model = popsim.NetworkModel(network, dt=DT)
    trial = popsim.Trial((), jnp.zeros((N_STEPS, 1)), (), popsim.Timeline(DT, N_STEPS))
    states = popsim.simulate(model, trial, key=key)
    output = 2.0 * jax.random.normal(key, (N_STEPS, 3))
    return *aiming_at(output, jax.nn.one_hot(RIGHT, 3), states, trial), model


@pytest.fixture
def run(float64):
    """States, an `OutputTarget` of several outputs and a model; the numbers drawn at random."""
    return random_run()


def aiming_at(output, values, states, trial):
    """States that put `output` out, in a trial in which it should be `values`."""
    states = eqx.tree_at(lambda states: states.network.output, states, output)
    target = popsim.OutputTarget(jnp.asarray(values), jnp.asarray(COUNTS))
    return states, dataclasses.replace(trial, targets=target)


def softmax(y):
    return np.exp(y) / np.sum(np.exp(y), axis=-1, keepdims=True)


def squared_error(y, values):
    return np.mean((y - values) ** 2, axis=1)


def surprise(y, values):
    if y.shape[1] == 1:
        p = (1 / (1 + np.exp(-y)))[:, 0]
        return -np.log(np.where(values[:, 0] == 1, p, 1 - p))
    return -np.log(np.sum(softmax(y) * values, axis=1))


def wrongness(y, values):
    return 1 - np.exp(-surprise(y, values))


TERMS = {OutputError: squared_error, CrossEntropy: surprise, ChoiceError: wrongness}


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_terms_of_the_output(run, n_outputs, getkey):
    states, trial, model = run
    if n_outputs == 1:
        output = states.network.output[:, :1]
        states, trial = aiming_at(output, (RIGHT == 1.0)[:, None].astype(float), states, trial)
    terms = [kind(profile=profile) for kind in TERMS for profile in (InWindow(), EARLY)]
    for term, found in zip(terms, values_and_steps(terms, states, trial, model), strict=True):
        counts = COUNTS if term.profile == InWindow() else COUNTS * (np.arange(N_STEPS) < 3)
        errors = TERMS[type(term)](np.asarray(states.network.output), np.asarray(trial.targets.values))
        np.testing.assert_allclose(found, [counts @ errors / counts.sum()] * 2, rtol=1e-12)

    def value(output):
        shown = aiming_at(output, trial.targets.values, states, trial)
        return sum((i + 1) * kind()(*shown, model) for i, kind in enumerate(TERMS))

    assert_gradients_agree(value, states.network.output, getkey())


def test_each_output_may_have_its_own_weight(run, getkey):
    """Each squared error counts by itself; of a choice, a step has the weight of the right output."""
    states, trial, model = run
    counts = COUNTS[:, None] * np.asarray(jax.random.uniform(getkey(), (N_STEPS, 3)))
    trial = eqx.tree_at(lambda trial: trial.targets.counts, trial, jnp.asarray(counts))
    output, values = np.asarray(states.network.output), np.asarray(trial.targets.values)
    of_right = counts[np.arange(N_STEPS), RIGHT]
    for kind, found in zip(
        TERMS, values_and_steps([kind() for kind in TERMS], states, trial, model), strict=True
    ):
        expected = of_right @ TERMS[kind](output, values) / of_right.sum()
        if kind is OutputError:
            expected = np.sum(counts * (output - values) ** 2) / np.sum(counts)
        np.testing.assert_allclose(found, [expected] * 2, rtol=1e-12)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_where_nothing_counts_or_all_is_sure_they_are_finite(run, n_outputs):
    """Outputs of 1000, for which exp overflows, right at some steps and wrong at others."""
    states, trial, model = run
    sure = jnp.zeros((N_STEPS, n_outputs)).at[:, 0].set(jnp.array([1e3, -1e3] * 3))
    # What counts is right and leaves no doubt, what does not count is forbidden.
    forbidden = sure.at[:, -1].set(-jnp.inf) if n_outputs > 1 else sure.at[1].set(jnp.inf)
    forbidden = forbidden.at[0, 0].set(-jnp.inf)
    values = np.eye(n_outputs)[np.zeros(N_STEPS, int)]

    @functools.partial(jax.jit, static_argnums=0)
    @functools.partial(jax.value_and_grad, argnums=1)
    def value(kind, output, counts):
        own_states, own_trial = aiming_at(output, values, states, trial)
        own_trial = eqx.tree_at(lambda trial: trial.targets.counts, own_trial, counts)
        return kind()(own_states, own_trial, model)

    for kind in TERMS:
        for counts in (jnp.asarray(COUNTS), jnp.zeros(N_STEPS)):
            found, gradient = value(kind, sure if kind is OutputError else forbidden, counts)
            assert np.isfinite(found) and np.all(np.isfinite(gradient))
        assert found == 0 and not np.any(gradient)


@pytest.mark.parametrize("kind", TERMS)
def test_targets_that_do_not_fit_the_output_are_refused(as_users_run, run, kind):
    states, trial, model = run
    target = trial.targets
    for argument, other in (
        ("targets", ()),
        ("targets.values", dataclasses.replace(target, values=target.values[:, :2])),
        ("targets.counts", dataclasses.replace(target, counts=target.counts[:, None])),
    ):
        with pytest.raises(ValueError, match=f"`{argument}`"):
            kind()(states, dataclasses.replace(trial, targets=other), model)


def test_weights_are_penalised_as_one_vector(run):
    loop = relay_loop({})
    recurrent, readout = run[2].network.recurrent_weights, jax.tree.leaves(run[2].network.readout)
    for states, trial, model, picked, arrays in (
        (
            *run,
            lambda m: (m.network.recurrent_weights, m.network.readout),
            [recurrent, *jax.tree.leaves(readout)],
        ),
        ((), reach(N_STEPS), loop, lambda m: m.network.command, [loop.network.command]),
    ):
        numbers = np.concatenate([np.ravel(leaf) for leaf in arrays])
        value, gradient = eqx.filter_value_and_grad(
            lambda m, picked=picked, rest=(states, trial): WeightPenalty(picked)(*rest, m)
        )(model)
        np.testing.assert_allclose(value, numbers @ numbers, rtol=1e-6)
        by_sum = WeightPenalty(picked, distance=L1Distance())(states, trial, model)
        np.testing.assert_allclose(by_sum, np.abs(numbers).sum(), rtol=1e-6)
        found = jax.tree.leaves(eqx.filter(picked(gradient), eqx.is_inexact_array))
        np.testing.assert_allclose(np.concatenate([np.ravel(leaf) for leaf in found]), 2 * numbers)
        everywhere = jax.tree.leaves(eqx.filter(gradient, eqx.is_inexact_array))
        assert sum(np.count_nonzero(leaf) for leaf in everywhere) == np.count_nonzero(numbers)


def test_the_choice_among_several_is_the_largest_mean_where_one_is_asked_for():
    values = jnp.array([[0.0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0]])
    counts = jnp.array([1.0, 1, 0, 1, 3])
    outputs = jnp.array([[99.0, 0, 0], [99, 0, 0], [0, 0, 99], [0, 3, 1], [0, 0, 0.9]])
    target = OutputTarget(values, counts)
    assert int(correct_choice(target)) == 1
    assert int(output_choice(outputs, target)) == 2  # 3 * 1 < 1 * 1 + 3 * 0.9
    assert int(output_choice(outputs.at[4, 2].set(0.5), target)) == 1


def test_an_output_that_counts_nowhere_is_never_chosen():
    values = jnp.zeros((4, 3)).at[2:, 1].set(1.0)
    counts = jnp.ones((4, 3)).at[:, 2].set(0.0).at[3, 0].set(0.0)
    target = OutputTarget(values, counts)
    outputs = jnp.array([[0.0, 0, 0], [0, 0, 0], [1, 2, 9], [9, 2, 9]])
    assert int(correct_choice(target)) == 1 and int(output_choice(outputs, target)) == 1
    assert int(output_choice(outputs, OutputTarget(values, jnp.ones((4, 3))))) == 2
    assert int(output_choice(outputs, OutputTarget(values, jnp.zeros((4, 3))))) == -1


def test_what_does_not_count_may_be_nan():
    values = jnp.full((4, 3), jnp.nan).at[3].set(jnp.array([0.0, 0, 1]))
    outputs = jnp.full((4, 3), jnp.nan).at[3].set(jnp.array([0.0, 2, 1]))
    counts = jnp.array([0.0, 0, 0, 1])
    for each in (counts, counts[:, None] * jnp.ones(3)):
        target = OutputTarget(values, each)
        assert int(correct_choice(target)) == 2 and int(output_choice(outputs, target)) == 1


def test_one_output_is_the_log_odds_of_choice_one():
    counts = jnp.array([0.0, 1.0, 1.0])
    for right in (0, 1):
        target = OutputTarget(jnp.full((3, 1), float(right)), counts)
        assert int(correct_choice(target)) == right
        assert int(output_choice(jnp.array([[-9.0], [0.4], [-0.3]]), target)) == 1
        assert int(output_choice(jnp.array([[9.0], [-0.4], [0.3]]), target)) == 0


def test_the_accuracy_of_each_member_leaves_out_trials_that_ask_for_no_choice():
    values = jnp.zeros((4, 2, 2)).at[jnp.arange(3), 1, jnp.array([0, 1, 1])].set(1.0)  # the last is silent
    target = OutputTarget(values, jnp.ones((4, 2)))
    outputs = jnp.stack([values, 1 - values, values.at[0, 1].set(jnp.array([0.0, 1.0]))])
    np.testing.assert_array_equal(correct_choice(target), [0, 1, 1, -1])
    np.testing.assert_array_equal(output_choice(outputs, target)[1], [1, 0, 0, -1])
    np.testing.assert_allclose(jax.jit(choice_accuracy)(outputs, target), [1, 0, 2 / 3], rtol=1e-6)
    silent = OutputTarget(values[3:], jnp.ones((1, 2)))
    assert np.all(np.isnan(jax.jit(choice_accuracy)(outputs[:, 3:], silent)))
    uncounted = OutputTarget(values, jnp.zeros((4, 2)))
    np.testing.assert_array_equal(correct_choice(uncounted), -1)
