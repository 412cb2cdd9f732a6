import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT, Relay, reach, relay_loop, stacked
from short_form import every_nth_row
from wrong_arguments import assert_named_in_one_line, wrong_arguments

import popsim
from popsim import GaussianNoise, MotorNoise, Scaling, SensoryChannel
from popsim._shared.checks import warn_caller_once


def at_start_of_steps(states, model, trial, n_delayed=0):
    """Position and velocity of the hand at the start of each step, `n_delayed` steps ago."""
    start = model.init(trial, key=jax.random.key(0)).hand
    seen = jnp.concatenate([states.hand.position, states.hand.velocity], axis=1)
    first = jnp.concatenate([start.position, start.velocity])
    n_steps = trial.timeline.n_steps
    return jnp.concatenate([jnp.tile(first, (n_delayed + 1, 1)), seen])[:n_steps]


@pytest.mark.parametrize(
    "delay, n_delayed",
    every_nth_row([(0.0, 0), (0.01, 1), (0.05, 5), (0.07, 7), (0.0300005, 3), (0.29, 29)], 2),
)
def test_a_delay_of_d_seconds_is_exactly_d_over_dt_steps(getkey, delay, n_delayed):
    """With delay 0 the network at step t senses the state at the start of step t."""
    channels = {
        "vision": SensoryChannel(popsim.vision, delay=delay),
        "proprioception": SensoryChannel(popsim.proprioception, delay=0.02),
    }
    model, trial = relay_loop(channels), reach(35)
    states = popsim.simulate(model, trial, key=getkey())
    assert jnp.all(jnp.ptp(states.hand.position, axis=0) > 0.01)
    for name, n in (("vision", n_delayed), ("proprioception", 2)):
        expected = at_start_of_steps(states, model, trial, n)
        np.testing.assert_array_equal(states.feedback[name], expected)


@pytest.mark.parametrize("delay", [0.015, 0.0100011, 0.004, -0.01, float("nan")])
def test_a_delay_that_is_no_multiple_of_dt_is_refused(delay):
    with pytest.raises(ValueError, match="delay"):
        relay_loop({"vision": SensoryChannel(popsim.vision, delay=delay)})


def test_feedback_noise_has_the_stated_deviation_and_is_independent(getkey):
    std = np.array([0.002, 0.003, 0.02, 0.05])
    noisy = SensoryChannel(popsim.vision, delay=0.02, noise=GaussianNoise(std))
    model, trial = relay_loop({"one": noisy, "two": noisy}), reach()
    states = jax.vmap(lambda key: popsim.simulate(model, trial, key=key))(jax.random.split(getkey(), 1500))
    expected = jax.vmap(lambda states: at_start_of_steps(states, model, trial, 2))(states)
    noise = np.stack([(states.feedback[name] - expected) / std for name in ("one", "two")], axis=1)
    np.testing.assert_allclose(noise.std((0, 1, 2)), 1.0, atol=5 / (2 * 1500 * 24) ** 0.5)
    np.testing.assert_allclose(noise.mean((0, 1, 2)), 0.0, atol=5 / (1500 * 24) ** 0.5)
    flat = noise.reshape(1500, -1)  # by channel, time and feature
    np.testing.assert_allclose(np.corrcoef(flat.T), np.eye(flat.shape[1]), atol=6 / 1500**0.5)


def test_motor_noise_is_on_the_command_that_moves_the_body_and_not_on_the_output(getkey):
    model, trial = relay_loop({}, motor_noise=MotorNoise(0.1, 0.3)), reach()
    states = jax.vmap(lambda key: popsim.simulate(model, trial, key=key))(jax.random.split(getkey(), 1500))
    np.testing.assert_array_equal(
        states.network.output, jnp.broadcast_to(model.network.command, (1500, 12, 2))
    )
    noise = np.asarray(states.command - states.network.output)
    expected = np.hypot(0.1 * np.asarray(model.network.command), 0.3)
    np.testing.assert_allclose(noise.std((0, 1)), expected, rtol=5 / (2 * 1500 * 12) ** 0.5)
    impulse = jnp.cumsum(states.command, axis=1) * DT
    np.testing.assert_allclose(states.hand.velocity, impulse, atol=1e-6)


def test_the_network_receives_inputs_then_feedback_by_name_and_scaled(getkey):
    channels = {
        "vision": SensoryChannel(popsim.vision),
        "body": SensoryChannel(popsim.proprioception, delay=0.01),
    }
    scaling = {"target": Scaling([0.1, 0.0], 0.2), "vision": Scaling(0.0, [0.1, 0.1, 1.0, 2.0])}
    model, trial = relay_loop(channels, scaling=scaling), reach()
    states = popsim.simulate(model, trial, key=getkey())
    target = (trial.inputs["target"] - jnp.array([0.1, 0.0])) / 0.2
    vision = states.feedback["vision"] / jnp.array([0.1, 0.1, 1.0, 2.0])
    expected = jnp.concatenate([target, states.feedback["body"], vision], axis=1)
    np.testing.assert_allclose(states.network.hidden, expected, rtol=1e-6)


def test_hand_cursor_and_body_agree(getkey):
    plant = popsim.plants.TwoLinkArm.arm26_skeleton()
    trial = reach(start=plant.workspace.center, target=plant.workspace.center)
    states = popsim.simulate(relay_loop({}, plant=plant), trial, key=getkey())
    hand = jax.vmap(plant.hand)(states.plant)
    for seen in (states.hand, states.cursor):
        np.testing.assert_allclose(seen.position, hand.position, rtol=1e-6)
        np.testing.assert_allclose(seen.velocity, hand.velocity, rtol=1e-5, atol=1e-7)


ARM = popsim.plants.TwoLinkArm.arm26_skeleton()
CENTER, FAR = ARM.workspace.center, (0.5, 0.5)
VISION = {"vision": SensoryChannel(popsim.vision)}
SCHEDULED = {"curl field": popsim.interventions.InterventionSchedule(jnp.array(1.0), jnp.ones(12, bool))}


def checked(where=None, value=None, *, inside=None, **options):
    """Check two reaches of an arm, of which the second has options, by a loop with others."""
    model = {name: options.pop(name) for name in ("channels", "scaling") if name in options}
    common = {name: options[name] for name in ("dt", "interventions") if name in options}
    within = {"start": CENTER, "target": CENTER}
    trials = stacked(reach(**within | common), reach(**within | options)) if inside is None else inside
    trials = trials if where is None else eqx.tree_at(where, trials, value)
    relay_loop(**{"channels": VISION, "plant": ARM} | model).check(trials)


@pytest.mark.usefixtures("as_users_run")
@wrong_arguments(
    trials=[
        ("init.position", lambda: checked(start=FAR)),
        ("targets.position", lambda: checked(target=FAR)),
        ("targets.position", lambda: checked(target=(float("nan"), 0.4))),
        ("dt", lambda: checked(dt=0.02)),
        ("interventions", lambda: checked(interventions=SCHEDULED)),
        ("init.position", lambda: checked(inside=stacked(reach(start=(0, 0.4, 0), target=(0, 0.4, 0))))),
        ("init", lambda: checked(lambda own: own.init, jnp.zeros((2, 2)))),
        ("init.velocity", lambda: checked(lambda own: own.init.velocity, jnp.ones((2, 2)))),
        ("inputs", lambda: checked(lambda own: own.inputs["target"], jnp.full((2, 12, 2), jnp.inf))),
    ],
    loops=[
        ("scaling", lambda: checked(scaling={"visoin": Scaling(0.0, 1.0)})),
        ("channels", lambda: checked(channels={"target": VISION["vision"]})),
        ("channels", lambda: checked(channels={"vision": SensoryChannel(popsim.vision, delay=0.7)})),
        ("network", lambda: popsim.SensorimotorLoop(Relay(jnp.zeros(2), 7), ARM, VISION, dt=DT).check(
            stacked(reach(start=CENTER, target=CENTER)))),
        ("motor_noise", lambda: relay_loop({}, motor_noise=0.1)),
    ],
)  # fmt: skip
def test_trials_that_do_not_fit_are_refused_by_name(argument, call):
    checked()
    assert_named_in_one_line(argument, call)


def test_a_network_that_drives_muscles_beyond_their_excitations_is_warned_of_once(getkey):
    """Not for each model of an ensemble; a torque has no such range, and one's own network is not judged."""
    muscled, arm = popsim.plants.muscled_point_mass(), popsim.plants.TwoLinkArm.arm26_skeleton()

    def loop(kind, plant, **output):
        network = kind(2, 3, plant.n_commands, **output, key=getkey())
        return popsim.SensorimotorLoop(network, plant, {}, dt=DT)

    for kind in (popsim.networks.GRUNetwork, popsim.networks.LeakyRNN):
        warn_caller_once.cache_clear()
        with pytest.warns(UserWarning, match="`network` should.*got `output_fn=None`") as warned:
            loop(kind, muscled)
            with warnings.catch_warnings():  # as while compiling
                pass
            loop(kind, muscled)
        assert len(warned) == 1 and warned[0].filename == __file__
        excitations = loop(kind, muscled, output_fn=jax.nn.sigmoid, output_bias=-3.0).network.read_out
        np.testing.assert_allclose(excitations(jnp.zeros(3)), jax.nn.sigmoid(-3.0), atol=0.05)
        loop(kind, arm)
    relay_loop({}, plant=muscled, command=(0.0,) * muscled.n_commands)
