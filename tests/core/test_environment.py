"""What an environment shows, is told and pays, in models without and with a body."""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import reach, relay_loop
from small_environments import N_STEPS, Counter, CounterTask, Echo, Follow, build, trial_with
from small_training import train
from wrong_arguments import assert_named_in_one_line, wrong_arguments

import popsim
import popsim.session
from popsim import losses
from popsim._compiled import map_trials
from popsim.environment import AbstractEnvironment, Discrete, Outcome
from popsim.policies import Categorical, Gaussian

KEY = jax.random.key(0)


def stacked(trial, n=1):
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * n), trial)


REACH = reach(N_STEPS)
TARGET = jax.tree.map(lambda leaf: leaf[-1], REACH.targets)
FOLLOWING = trial_with(Follow(TARGET), init=REACH.init, inputs=REACH.inputs)


def loop_for(trial, channels, n_outputs=2, **options):
    """A network that moves a mass in a trial."""
    plant = popsim.plants.PointMass()
    n_inputs = popsim.n_network_inputs(stacked(trial), plant, channels)
    network = popsim.networks.GRUNetwork(n_inputs, 3, n_outputs, key=KEY)
    model = popsim.SensorimotorLoop(network, plant, channels, dt=0.01, **options)
    model.check(stacked(trial))
    return model


@pytest.fixture
def counted():
    model, trial = build(KEY), trial_with(Counter(jnp.asarray(4.0)))
    model.check(stacked(trial))
    return popsim.simulate(model, trial, key=KEY), trial, model


def test_what_is_shown_enters_one_step_later_and_nothing_changes_after_the_end(counted):
    states, trial, model = counted
    seen = states.interaction
    assert seen.received["count"][:, 0].tolist() == [0, 1, 2, 3, 4, 4]
    assert seen.active.tolist() == [True] * 4 + [False] * 2
    np.testing.assert_array_equal(seen.reward, np.where(seen.active, seen.action, 0))
    np.testing.assert_array_equal(model.network_inputs(states, trial), seen.received["count"])
    network, hidden = model.network, model.network.init(key=KEY)
    for count, after in zip(seen.received["count"], states.network.hidden, strict=True):
        hidden = network.step(count, hidden, key=KEY)
        np.testing.assert_allclose(hidden, after, rtol=1e-6)
    assert seen.upcoming is None and len(np.unique(seen.record["drawn"])) == 4  # as it was at the end


class Typed(AbstractEnvironment):
    """Shows the state, and records that before each step, in types that change from `init` to `step`."""

    begin: jax.Array
    move: Callable = eqx.field(static=True)
    actions = Discrete(2)

    def init(self, *, key):
        return self.begin, {"state": self.begin[None].astype(float)}

    def step(self, state, action, *, key):
        after, record = self.move(state), {"state": state}
        return after, Outcome({"state": after[None]}, jnp.zeros(()), jnp.asarray(False), record)


def add_half(state):
    return state.astype(float) + 0.5


@pytest.mark.parametrize(
    ("begin", "move", "states"),
    [
        (0.75, lambda state: jnp.asarray(1), [0.75, 1, 1]),
        (0, add_half, [0, 0.5, 1]),
        (0, lambda state: state + 1, [0, 1, 2]),
        (False, lambda state: jnp.asarray(2), [0, 2, 2]),
    ],
)
def test_numbers_are_held_in_a_type_that_cuts_none(begin, move, states, as_users_run):
    trial = trial_with(Typed(jnp.asarray(begin), move), n_steps=3)
    seen = popsim.simulate(build(KEY), trial, key=KEY).interaction
    assert seen.record["state"].tolist() == states
    assert seen.received["state"][:, 0].tolist() == states


def test_all_trials_at_once_are_each_trial_by_itself():
    trials = jax.vmap(lambda last: trial_with(Counter(last)))(jnp.array([2.0, 4.0, 9.0]))
    keys, model = jax.random.split(KEY, 3), build(KEY)
    run = functools.partial(map_trials, lambda trial, key: popsim.simulate(model, trial, key=key))
    at_once = jax.jit(run)(trials, keys)
    for index in range(3):
        trial, part = (jax.tree.map(lambda leaf, i=index: leaf[i], tree) for tree in (trials, at_once))
        alone = popsim.simulate(model, trial, key=keys[index])
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), part, alone)


class NaNAfterTheEnd(Follow):
    """Records a target that is not a number once the trial has ended."""

    def init(self, *, key):
        return jnp.asarray(False), {"goal": self.target.position}

    def step(self, state, action, *, key):
        _, outcome = super().step((), action, key=key)
        target = jax.tree.map(lambda leaf: jnp.where(state, jnp.nan, leaf), self.target)
        return jnp.asarray(True), dataclasses.replace(
            outcome, done=jnp.asarray(True), record={"target": target}
        )


def test_a_record_stays_as_it_was_at_the_end():
    trial = dataclasses.replace(FOLLOWING, environment=NaNAfterTheEnd(TARGET))
    model = loop_for(trial, {"vision": popsim.SensoryChannel(popsim.vision)})
    states = popsim.simulate(model, trial, key=KEY)
    assert states.interaction.active.tolist() == [True] + [False] * (N_STEPS - 1)
    assert np.isfinite(losses.PositionError()(states, trial, model))


def test_a_vector_is_clipped_to_its_bounds_and_has_a_gradient_without_a_policy():
    network = popsim.networks.GRUNetwork(2, 3, 2, key=KEY)
    network = eqx.tree_at(lambda n: n.readout.bias, network, jnp.array([5.0, 0.2]))
    model, trial = popsim.NetworkModel(network, dt=0.01), trial_with(Echo(jnp.asarray(2.0)))
    model.check(stacked(trial))

    def reward(bias):
        changed = eqx.tree_at(lambda m: m.network.readout.bias, model, bias)
        states = popsim.simulate(changed, trial, key=KEY)
        return states.interaction.reward.sum(), states

    slope, states = jax.jit(jax.grad(reward, has_aux=True))(network.readout.bias)
    action = states.interaction.action
    np.testing.assert_array_equal(action, np.clip(states.network.output, -1, 1))
    np.testing.assert_array_equal(states.interaction.received["last"][1:], action[:-1])
    assert slope[0] == 0 and slope[1] != 0


def test_a_loop_hands_over_its_movement_and_its_losses_use_the_target_that_is_recorded():
    channels = {"vision": popsim.SensoryChannel(popsim.vision)}
    model = loop_for(FOLLOWING, channels)
    names = popsim.senses.network_input_names(stacked(FOLLOWING), model.plant, channels)
    assert list(names) == ["goal", "target", "vision"]
    states = popsim.simulate(model, FOLLOWING, key=KEY)
    moved = states.interaction.action
    np.testing.assert_array_equal(moved.position, states.cursor.position)
    away = jnp.sum((states.cursor.position - TARGET.position) ** 2, axis=1)
    np.testing.assert_allclose(states.interaction.reward, -away, rtol=1e-6)
    plain = losses.PositionError(profile=losses.InWindow())
    np.testing.assert_allclose(plain(states, FOLLOWING, model), away.sum(), rtol=1e-5)


def test_a_channel_of_the_same_name_takes_what_is_shown_with_its_delay():
    channels = {"goal": popsim.SensoryChannel(popsim.senses.Shown("goal"), delay=0.02)}
    model = loop_for(FOLLOWING, channels)
    names = popsim.senses.network_input_names(stacked(FOLLOWING), model.plant, channels)
    assert list(names).count("goal") == 1 and list(names)[-1] == "goal"
    states = popsim.simulate(model, FOLLOWING, key=KEY)
    np.testing.assert_allclose(states.feedback["goal"], np.tile(TARGET.position, (N_STEPS, 1)), rtol=1e-6)
    received = model.network_inputs(states, FOLLOWING)
    np.testing.assert_array_equal(received[:, -2:], states.feedback["goal"])


def test_a_gaussian_policy_is_motor_noise_of_known_probability():
    model = loop_for(FOLLOWING, {}, n_outputs=3, policy=Gaussian(2, std=0.3, critic=True))
    states = popsim.simulate(model, FOLLOWING, key=KEY)
    noise = np.asarray(states.command - states.network.output[:, :2])
    expected = -0.5 * (noise**2).sum(1) / 0.09 - 2 * np.log(0.3) - np.log(2 * np.pi)
    np.testing.assert_allclose(states.interaction.log_probability, expected, rtol=1e-5)
    assert np.all(noise != 0)
    effort = losses.Effort()(states, FOLLOWING, model)
    np.testing.assert_allclose(effort, (states.network.output[:, :2] ** 2).sum(), rtol=1e-6)


def test_members_of_a_task_learn():
    loss = losses.PolicyGradient() + 0.1 * losses.ValueRegression() + 0.01 * losses.Entropy()
    ensemble = popsim.make_ensemble(build, 2, key=KEY)
    trained, history = train(30, ensemble=ensemble, task=CounterTask(loss))
    reward = -history.loss.terms["minus reward"]
    assert np.all(reward[-5:].mean(0) > reward[:5].mean(0))


class Wrong(AbstractEnvironment):
    """Returns what a test gives it."""

    outcome: object
    first: object = None
    actions = Discrete(2)

    def init(self, *, key):
        return (), {"x": jnp.zeros(1)} if self.first is None else self.first

    def step(self, state, action, *, key):
        return state, self.outcome


class CountsTheEnd(Counter):
    """Says by a whole number whether the trial is over."""

    def step(self, state, action, *, key):
        after, outcome = super().step(state, action, key=key)
        return after, dataclasses.replace(outcome, done=outcome.done.astype(int))


def outcome(**changes):
    parts = {"observation": {"x": jnp.zeros(1)}, "reward": jnp.zeros(()), "done": jnp.asarray(False)}
    return Outcome(**{**parts, **changes})


TWO = Categorical(2)


def checked(environment, n_outputs=2, policy=TWO, n_inputs=1, **parts):
    """Check one trial with an environment by a network without a body."""
    network = popsim.networks.GRUNetwork(n_inputs, 3, n_outputs, key=KEY)
    model = popsim.NetworkModel(network, policy=policy, dt=0.01)
    model.check(stacked(trial_with(environment, **parts)))


def sized(channels):
    popsim.n_network_inputs(stacked(FOLLOWING), popsim.plants.PointMass(), channels)


COUNTER, ECHO = Counter(jnp.asarray(4.0)), Echo(jnp.asarray(1.0))
INPUTS = {"inputs": jnp.ones((N_STEPS, 1))}
VISION = popsim.SensoryChannel(popsim.vision)
LATE_GOAL = popsim.SensoryChannel(popsim.senses.Shown("goal"), delay=0.02)


@pytest.mark.usefixtures("as_users_run")
@wrong_arguments(
    environments=[
        ("step` of Wrong", lambda: checked(Wrong(None))),
        ("step` of Wrong", lambda: checked(Wrong(outcome(observation={"x": jnp.zeros(2)})))),
        ("init` of Wrong", lambda: checked(Wrong(outcome(), jnp.zeros(1)))),
        ("done`, got shape", lambda: checked(Counter(jnp.ones(2)))),
        ("done`, as in", lambda: checked(CountsTheEnd(jnp.asarray(9.0)))),
        ("environment", lambda: checked(COUNTER, n_inputs=2, inputs={"count": jnp.ones((N_STEPS, 1))})),
    ],
    models=[
        ("policy", lambda: checked(COUNTER, policy=None)),
        ("policy", lambda: checked(ECHO)),
        ("policy", lambda: checked(None, **INPUTS)),
        ("model", lambda: checked(Follow(TARGET), inputs=REACH.inputs)),
        ("network", lambda: checked(ECHO, policy=None)),
        ("network", lambda: checked(COUNTER, policy=Categorical(3))),
        ("policy", lambda: relay_loop({"vision": VISION}, policy=Gaussian(3))),
        ("channels", lambda: sized({"late": LATE_GOAL})),
        ("channels['goal']", lambda: sized({"goal": VISION})),
        ("environment", lambda: relay_loop({"vision": VISION}).check(
            stacked(dataclasses.replace(FOLLOWING, environment=COUNTER)))),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_it_runs(argument, call):
    assert_named_in_one_line(argument, call)
