import jax
import jax.numpy as jnp
import pytest
from small_reaches import small_reach_setup
from small_tasks import Choose, pushed_reaches
from small_training import RunningSum

import popsim
from popsim.gymnasium.agent import (
    Agent,
    agent_loop,
    agent_network_model,
    default_limits,
    with_action,
    with_agent,
)


def test_an_agent_puts_out_its_action_and_its_unit_is_silent(getkey):
    agent = Agent(3, 2)
    hidden = agent.step(jnp.ones(3), agent.init(key=getkey()), key=getkey())
    assert not hidden.any() and not agent.read_out(hidden).any()
    model = with_action(popsim.NetworkModel(agent, dt=0.01), jnp.array([1.0, -2.0]))
    assert model.network.read_out(hidden).tolist() == [1.0, -2.0]
    with pytest.raises(ValueError, match="n_outputs"):
        Agent(3, 0)


def test_a_loop_for_an_agent_fits_the_task_and_the_body():
    plant = popsim.plants.PointMass()
    task = pushed_reaches(plant)
    channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.02)}
    loop = agent_loop(task, plant, channels, interventions=(popsim.interventions.ConstantForce(),))
    loop.check(task.validation_trials())
    assert (loop.network.n_inputs, loop.network.n_outputs, loop.dt) == (6, 2, 0.01)
    trained = small_reach_setup()[1](jax.random.key(0))
    assert with_agent(trained).network.n_inputs == trained.network.n_inputs
    assert with_agent(trained).motor_noise is trained.motor_noise


def test_an_agent_alone_has_the_outputs_of_the_task():
    for task, n_inputs in ((Choose(), 3), (RunningSum(), 1)):
        model = agent_network_model(task)
        assert (model.network.n_inputs, model.network.n_outputs) == (n_inputs, 1)
        model.check(task.validation_trials())
    with pytest.raises(ValueError, match="agent_loop"):
        agent_network_model(popsim.tasks.RandomReaches(popsim.plants.PointMass().workspace))


def test_muscles_are_excited_from_zero_to_one():
    plants = popsim.plants.PointMass(), popsim.plants.muscled_point_mass()
    limits = [
        default_limits(agent_loop(popsim.tasks.RandomReaches(plant.workspace), plant, {})) for plant in plants
    ]
    assert limits == [(-10.0, 10.0), (0.0, 1.0)]
    assert default_limits(agent_network_model(Choose())) == (-5.0, 5.0)
