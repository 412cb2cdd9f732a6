"""Sessions: what continues between trials, what starts anew, and what the loss and the gradient see."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import relay_loop
from small_environments import Counter, build, trial_with
from small_training import RunningSum, train
from small_training import build as build_network
from wrong_arguments import assert_named_in_one_line, wrong_arguments

import popsim
from popsim.environment import Box
from popsim.session import join_trials, separate_trials, split_time
from popsim.tasks import Session
from popsim.training.rules import TrialActivity, network_steps

KEY, N = jax.random.key(0), 3


def drawn(n=N):
    task = RunningSum()
    return jax.vmap(lambda key: task.trial(batch=0, key=key))(jax.random.split(KEY, n))


def of_trial(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


@pytest.mark.parametrize("carry", [(), ("hidden",)], ids=["nothing", "hidden"])
def test_a_session_is_its_trials_one_after_the_other(carry):
    trials, model = drawn(), build_network(KEY)
    session = join_trials(trials, carry=carry)
    states = popsim.simulate(model, session, key=KEY)
    n_steps = trials.timeline.n_steps
    assert session.timeline.n_steps == N * n_steps and session.inputs.shape == (N * n_steps, 1)
    apart = split_time(states, n_steps)
    assert split_time(jnp.zeros((2, 4, 15, 3)), 5, axis=2).shape == (2, 4, 3, 5, 3)
    first_state = model.init(session, key=KEY)
    steps = network_steps(TrialActivity(model, session, first_state, states))
    before = split_time(steps.before, n_steps)
    hidden, model_step = model.init(of_trial(trials, 0), key=KEY).network, eqx.filter_jit(model.step)
    for index in range(N):
        first = model.init(of_trial(trials, index), key=KEY)
        start = dataclasses.replace(first, network=hidden) if carry else first
        step_key = popsim.key_stream(jax.random.fold_in(KEY, index), "steps")
        state = start
        np.testing.assert_allclose(state.network.hidden, before[index, 0], rtol=1e-5, atol=1e-6)
        for t in range(n_steps):
            at_step = of_trial(trials, index).at_step(trials.inputs[index, t], {})
            state = model_step(at_step, state, key=jax.random.fold_in(step_key, t))
            np.testing.assert_allclose(
                state.network.hidden, apart.network.hidden[index, t], rtol=1e-5, atol=1e-6
            )
        hidden = state.network
    back = separate_trials(session)
    jax.tree.map(np.testing.assert_array_equal, back, trials)
    many = separate_trials(jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), session))
    np.testing.assert_array_equal(many.inputs, np.concatenate([trials.inputs] * 2))


def test_an_environment_resumes_and_the_trial_is_open_again():
    model = build(KEY)
    trials = jax.vmap(lambda last: trial_with(Counter(last), n_steps=3))(jnp.array([2.0, 9.0]))
    kept, anew = (
        popsim.simulate(model, join_trials(trials, carry=carry), key=KEY).interaction
        for carry in (("environment",), ())
    )
    assert kept.received["count"][:, 0].tolist() == [0, 1, 2, 2, 3, 4]
    assert anew.received["count"][:, 0].tolist() == [0, 1, 2, 0, 1, 2]
    assert kept.active.tolist() == [True, True, False, True, True, True]


def test_a_delayed_sense_begins_with_what_an_environment_shows_when_it_resumes():
    channels = {"count": popsim.SensoryChannel(popsim.senses.Shown("count"), delay=0.02)}
    plant = popsim.plants.PointMass()
    start = popsim.HandState(jnp.zeros(2), jnp.zeros(2))
    trial = trial_with(CommandCounter(jnp.asarray(9.0)), n_steps=3, init=start)
    trials = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), trial)
    network = popsim.networks.GRUNetwork(1, 3, 2, key=KEY)
    model = popsim.SensorimotorLoop(network, plant, channels, dt=0.01)
    states = popsim.simulate(model, join_trials(trials), key=KEY)
    assert states.feedback["count"][:, 0].tolist() == [0, 0, 0, 3, 3, 3]


class CommandCounter(Counter):
    """Counts the steps of a body."""

    actions = Box(2)

    def step(self, state, action, *, key):
        return super().step(state, action[0], key=key)


@pytest.mark.parametrize("cut", [False, True])
def test_the_gradient_flows_through_the_session_or_ends_where_a_trial_begins(cut):
    model, trials = build_network(KEY, noise_std=0.0), drawn()
    session = join_trials(trials, cut_gradient=cut)

    def last_output(inputs):
        states = popsim.simulate(model, dataclasses.replace(session, inputs=inputs), key=KEY)
        return states.network.output[-1, 0]

    slope = split_time(jax.grad(last_output)(session.inputs), trials.timeline.n_steps)
    assert np.any(slope[-1]) and np.any(slope[0]) != cut


def test_the_task_trains_an_ensemble_in_sessions_and_in_blocks():
    loss = RunningSum().loss
    blocks = [(RunningSum(loss), 2), (RunningSum(loss, scale=jnp.asarray(0.0)), 1)]
    task = Session.in_blocks(blocks, n_validation=2)
    sizes = np.abs(split_time(task.trial(batch=0, key=KEY).inputs, 6)).sum(axis=(1, 2))
    assert np.all(sizes[:2] > 0) and sizes[2] == 0
    _, history = train(20, task=task)
    assert history.loss.total.shape == (20, 2) and np.all(history.loss.total[-1] < history.loss.total[0])


class Memoryless(popsim.AbstractModel):
    """A model that does not say how trials follow one another."""

    def init(self, trial, *, key):
        return jnp.zeros(1)

    def step(self, step_input, state, *, key):
        return step_input.inputs


def silenced(session):
    active = jnp.zeros(session.timeline.n_steps, bool)
    return dataclasses.replace(
        session, interventions={"silence": popsim.trial.InterventionSchedule(jnp.zeros(()), active)}
    )


@pytest.mark.usefixtures("as_users_run")
@wrong_arguments(
    sessions=[
        ("trials", lambda: join_trials(jax.tree.map(lambda leaf: leaf[None], join_trials(drawn())))),
        ("interventions", lambda: silenced(join_trials(drawn()))),
        ("axis", lambda: split_time(jnp.zeros((2, 4, 15, 3)), 5)),  # (member, session, time, feature)
        ("model", lambda: popsim.simulate(Memoryless(), join_trials(drawn()), key=KEY)),
    ]
)
def test_what_makes_no_session_is_refused(argument, call):
    assert_named_in_one_line(argument, call)


def test_a_body_starts_anew_in_each_trial():
    model = relay_loop({"vision": popsim.SensoryChannel(popsim.vision)})
    task = popsim.tasks.RandomReaches(model.plant.workspace, duration=0.05)
    trials = jax.vmap(lambda key: task.trial(batch=0, key=key))(jax.random.split(KEY, N))
    session = join_trials(trials)
    states = split_time(popsim.simulate(model, session, key=KEY), trials.timeline.n_steps)
    assert np.all(jnp.linalg.norm(states.hand.position[:, 0] - trials.init.position, axis=1) < 1e-3)
    value = task.loss(popsim.simulate(model, session, key=KEY), session, model)
    each = [task.loss(of_trial(states, i), of_trial(trials, i), model).total for i in range(N)]
    np.testing.assert_allclose(value.total, np.mean(each), rtol=1e-5)
