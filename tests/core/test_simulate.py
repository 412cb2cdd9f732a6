"""Trials, and what is simulated of them."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT, reach, relay_loop, stacked
from small_training import assert_same

import popsim
from popsim import GaussianNoise, MotorNoise, SensoryChannel
from popsim.trial import n_trials


class Counter(popsim.AbstractModel):
    """Counts its steps, and draws a number at the start and at each."""

    def init(self, trial, *, key):
        draw = jax.random.uniform(key)
        return {"count": jnp.array(0), "start": draw, "draw": draw}

    def step(self, step_input, state, *, key):
        return {"count": state["count"] + 1, "start": state["start"], "draw": jax.random.uniform(key)}


def test_row_t_is_the_state_after_step_t(getkey):
    states = popsim.simulate(Counter(), reach(5), key=getkey())
    np.testing.assert_array_equal(states["count"], [1, 2, 3, 4, 5])


def test_row_t_is_at_time_t_plus_1_times_dt(float64, getkey):
    model = relay_loop({}, command=(1.0, 0.0))
    velocity = popsim.simulate(model, reach(5), key=getkey()).hand.velocity[:, 0]
    np.testing.assert_allclose(velocity, DT * np.arange(1, 6))


def test_the_key_of_a_step_depends_on_the_trial_key_and_the_step_alone(getkey):
    key = getkey()
    short, long = (popsim.simulate(Counter(), reach(n), key=key) for n in (4, 9))
    other = popsim.simulate(Counter(), reach(9), key=getkey())
    np.testing.assert_array_equal(short["draw"], long["draw"][:4])
    draws = [long["draw"], long["start"][:1], other["draw"], other["start"][:1]]
    assert len(np.unique(np.concatenate(draws))) == 20


class OnlyCursor(popsim.SensorimotorLoop):
    """A model that keeps the path of the cursor alone."""

    def record(self, state):
        return state.cursor.position


def test_delay_lines_are_not_recorded_and_all_else_is_unless_a_model_says_so(getkey):
    channels = {"vision": SensoryChannel(popsim.vision, delay=0.03)}
    model, key = relay_loop(channels), getkey()
    states = popsim.simulate(model, reach(), key=key)
    assert jax.tree.leaves(states.delays) == []
    leaves = jax.tree.leaves(states)
    assert len(leaves) == 1 + 2 + 1 + 1 + 2 + 2 + 2  # feedback, network, command, force, body, hand, cursor
    assert all(leaf.shape[0] == 12 for leaf in leaves)
    narrow = OnlyCursor(**{field.name: getattr(model, field.name) for field in dataclasses.fields(model)})
    np.testing.assert_array_equal(popsim.simulate(narrow, reach(), key=key), states.cursor.position)


@pytest.fixture(scope="module")
def reacher():
    plant = popsim.plants.PointMass()
    channels = {"vision": SensoryChannel(popsim.vision, delay=0.02, noise=GaussianNoise(0.01))}
    network = popsim.networks.GRUNetwork(6, 5, 2, key=jax.random.key(1))
    return popsim.SensorimotorLoop(network, plant, channels, MotorNoise(0.1, 0.1), dt=DT), reach()


@pytest.mark.full
def test_remat_changes_neither_states_nor_gradients(reacher):
    model, trial = reacher

    @eqx.filter_jit
    def states_and_gradient(model, remat):
        def loss(model):
            states = popsim.simulate(model, trial, remat=remat, key=jax.random.key(2))
            return jnp.sum((states.hand.position - trial.targets.position) ** 2), states

        (_, states), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(model)
        return states, gradient

    (kept, kept_gradient), (again, again_gradient) = (states_and_gradient(model, r) for r in (False, True))
    assert_same(again, kept, rtol=1e-6, atol=1e-7)
    assert_same(again_gradient, kept_gradient, rtol=1e-4, atol=1e-6)
    assert jnp.any(kept_gradient.network.cell.weight_hh != 0)


def test_repeats_of_a_trial_stand_in_a_row():
    trials = stacked(reach(start=(0.0, 0.0)), reach(start=(0.1, 0.0)))
    repeated = popsim.repeat_trials(trials, 3)
    np.testing.assert_allclose(repeated.init.position[:, 0], [0, 0, 0, 0.1, 0.1, 0.1])
    assert repeated.timeline.n_steps == 12 and n_trials(repeated) == 6
