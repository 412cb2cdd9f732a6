import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from small_reaches import small_reach_setup
from small_tasks import Choose, pushed_reaches

import popsim
from popsim.gymnasium.agent import agent_network_model, with_agent
from popsim.gymnasium.episode import StepRewards, advance_episode, begin_episode, observation_layout


def run(model, network, trial, key, rewards):
    """A network in the place of the agent: what it observed, its rewards, and the episode at the end."""
    episode, observed = begin_episode(model, rewards, trial, key=key)
    hidden = network.init(key=key)
    observations, paid = [], []
    for t in range(trial.timeline.n_steps):
        observations.append(observed)
        noise = popsim.key_stream(jax.random.fold_in(popsim.key_stream(key, "steps"), t), "network")
        hidden = network.step(observed, hidden, key=noise)
        episode, observed, reward = advance_episode(model, rewards, episode, network.read_out(hidden))
        paid.append(reward)
    return np.stack(observations), np.stack(paid), episode


def test_a_network_in_the_place_of_the_agent_does_what_simulate_does(getkey):
    """With delays, noise, scaling and a push: observation, course and loss are the same."""
    _, build = small_reach_setup()
    model = build(getkey())
    task = pushed_reaches(model.plant)
    scaling = {"target": popsim.Scaling([0.0, 0.1], [0.1, 0.2])}
    model = dataclasses.replace(model, scaling=scaling, interventions=(popsim.interventions.ConstantForce(),))
    key = getkey()
    trial = jax.tree.map(lambda leaf: leaf[-1], task.validation_trials())
    assert trial.interventions["constant force"].active.any()
    states = popsim.simulate(model, trial, key=key)
    rewards = StepRewards(task.loss)
    observed, paid, episode = run(with_agent(model), model.network, trial, key, rewards)
    np.testing.assert_allclose(observed, model.network_inputs(states, trial), atol=1e-5)
    np.testing.assert_allclose(episode.states.hand.position, states.hand.position, atol=1e-6)
    np.testing.assert_allclose(episode.states.external_force, states.external_force, atol=1e-6)
    terms = task.loss(states, trial, model).terms
    seen = sum(value for name, value in terms.items() if name != "hidden activity")
    np.testing.assert_allclose(paid.sum(), -seen, rtol=1e-4)


def test_without_a_body_the_observation_is_the_input(getkey):
    task = Choose()
    trial = task.trial(batch=0, key=getkey())
    model = agent_network_model(task)
    network = popsim.networks.GRUNetwork(3, 4, 1, key=getkey())
    observed, paid, episode = run(model, network, trial, getkey(), StepRewards(task.loss))
    layout = observation_layout(model, trial)
    assert layout == {"cues": slice(0, 2), "stimulus": slice(2, 3)}
    for name, where in layout.items():
        np.testing.assert_array_equal(observed[:, where], trial.inputs[name])
    assert episode.step == 20 and np.isfinite(paid).all()


def test_the_layout_names_inputs_and_channels():
    task, build = small_reach_setup()
    trial = jax.tree.map(lambda leaf: leaf[0], task.validation_trials())
    model = with_agent(build(jax.random.key(0)))
    layout = observation_layout(model, trial)
    assert list(layout) == ["target", "proprioception", "vision"]
    assert [(where.start, where.stop) for where in layout.values()] == [(0, 2), (2, 6), (6, 10)]
    _, observed = begin_episode(model, None, trial, key=jax.random.key(1))
    np.testing.assert_allclose(observed[layout["target"]], trial.inputs["target"][0], rtol=1e-6)
    np.testing.assert_allclose(
        observed[layout["vision"]], jnp.concatenate([*jax.tree.leaves(trial.init)]), atol=0.1
    )


def test_every_step_runs_the_same_program(getkey, count_compilations):
    task, build = small_reach_setup()
    model = with_agent(build(getkey()))
    trial = jax.tree.map(lambda leaf: leaf[0], task.validation_trials())
    rewards = StepRewards(task.loss)
    episode, _ = begin_episode(model, rewards, trial, key=getkey())
    action = jnp.ones(2)
    episode, _, _ = advance_episode(model, rewards, episode, action)
    with count_compilations() as compiled:
        for _ in range(3):
            episode, _, _ = advance_episode(model, rewards, episode, action)
    assert not compiled
