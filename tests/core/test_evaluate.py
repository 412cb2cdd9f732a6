import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT, Relay, reach, stacked

import popsim

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def setup():
    plant = popsim.plants.PointMass()
    noise, motor_noise = popsim.GaussianNoise(0.01), popsim.MotorNoise(0.1, 0.1)
    channels = {
        "vision": popsim.SensoryChannel(popsim.vision, delay=0.02, noise=noise),
        "body": popsim.SensoryChannel(popsim.proprioception, noise=noise),
    }

    def build(key):
        network = popsim.networks.GRUNetwork(10, 4, 2, key=key)
        return popsim.SensorimotorLoop(network, plant, channels, motor_noise, dt=DT)

    task = popsim.tasks.RandomReaches(plant.workspace, duration=0.1)
    return task, popsim.make_ensemble(build, 3, key=jax.random.key(0))


def first(trials, n):
    return jax.tree.map(lambda leaf: leaf[:n], trials)


def identical(first, second):
    return jax.tree.all(jax.tree.map(lambda a, b: jnp.array_equal(a, b), first, second))


def drawn_noise(evaluation):
    """What the noise of the first step added: nothing else has touched these numbers."""
    return {name: values[..., 0, :] for name, values in evaluation.states.feedback.items()}


def test_the_key_decides_all_noise_of_trials_however_many_there_are(setup, getkey):
    task, ensemble = setup
    model, key = popsim.member(ensemble, 1), getkey()
    twice = popsim.repeat_trials(first(task.validation_trials(), 4), 2)
    once, again, other = (popsim.evaluate(model, task, trials=twice, key=k) for k in (key, key, getkey()))
    assert identical(once, again)
    few = popsim.evaluate(model, task, trials=first(twice, 2), key=key)
    assert identical(drawn_noise(few), first(drawn_noise(once), 2))
    np.testing.assert_allclose(few.losses.total, once.losses.total[:2], rtol=1e-5)
    for a, b in zip(jax.tree.leaves(drawn_noise(once)), jax.tree.leaves(drawn_noise(other)), strict=True):
        assert not np.any(a == b)
        assert not np.any(a[0::2] == a[1::2])


def test_an_ensemble_is_evaluated_as_its_members_are_one_by_one(setup):
    task, ensemble = setup
    silent = popsim.without_noise(ensemble)
    together = popsim.evaluate_ensemble(silent, task, key=jax.random.key(5))
    for i in range(3):  # by other keys, which without noise change nothing
        alone = popsim.evaluate(popsim.member(silent, i), task, key=jax.random.key(i))
        np.testing.assert_allclose(together.losses.total[i], alone.losses.total, rtol=1e-5)
        np.testing.assert_allclose(together.states.hand.position[i], alone.states.hand.position, atol=1e-6)


def test_trials_without_inputs_can_be_evaluated():
    channels = {"vision": popsim.SensoryChannel(popsim.vision)}
    model = popsim.SensorimotorLoop(Relay(jnp.ones(2), 4), popsim.plants.PointMass(), channels, dt=DT)
    task = popsim.tasks.CenterOutReaches(model.plant.workspace)
    trial = dataclasses.replace(reach(), inputs={})
    evaluation = popsim.evaluate(model, task, trials=stacked(trial, trial), key=jax.random.key(0))
    assert evaluation.states.hand.position.shape == (2, 12, 2)
    assert evaluation.losses.total.shape == (2,)


@pytest.mark.full
def test_members_with_tasks_of_their_own_are_evaluated_as_one_by_one(setup):
    """The start and a loss weight differ between them."""
    (task, ensemble), key = setup, jax.random.key(5)
    values = popsim.PerMember([[0.1, 0.1], [0.2, 0.3], [0.3, 0.2]]), popsim.PerMember([1.0, 2.0, 3.0])
    task = eqx.tree_at(lambda t: (t.workspace.high, t.loss.weights["effort"]), task, values)
    together = popsim.evaluate_ensemble(ensemble, task, key=key)
    for i in range(3):
        own_task, model = popsim.select_member(task, i), popsim.member(ensemble, i)
        alone = popsim.evaluate(model, own_task, member_id=i, key=key)
        for name, value in alone.losses.terms.items():
            np.testing.assert_allclose(together.losses.terms[name][i], value, rtol=1e-4)
        np.testing.assert_allclose(together.states.hand.position[i], alone.states.hand.position, atol=1e-6)
    starts = together.states.hand.position[:, 0, 0]
    np.testing.assert_allclose(starts, [[0.0, 0.0], [0.05, 0.1], [0.1, 0.05]], atol=0.01)


def test_a_member_alone_gets_the_noise_that_it_has_in_the_ensemble_as_do_all_of_its_id(setup):
    task, ensemble = setup
    key, trials = jax.random.key(4), first(task.validation_trials(), 2)
    together = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=key).states.command[2]

    def alone(**ids):
        model = popsim.member(ensemble, 2)
        return popsim.evaluate(model, task, trials=trials, key=key, **ids).states.command

    np.testing.assert_allclose(alone(member_id=2), together, rtol=1e-5, atol=1e-7)
    assert not np.allclose(alone(), together, rtol=1e-5, atol=1e-7)
    ids = np.array([2, 1, 2])
    evaluation = popsim.evaluate_ensemble(ensemble, task, trials=trials, member_ids=ids, key=key)
    usual = drawn_noise(popsim.evaluate_ensemble(ensemble, task, trials=trials, key=key))
    for name, noise in drawn_noise(evaluation).items():
        np.testing.assert_array_equal(noise[0], noise[2])
        np.testing.assert_array_equal(noise[1:], usual[name][1:])


def test_trials_of_every_member_are_looked_at(setup):
    _, ensemble = setup
    task = popsim.tasks.RandomReaches(popsim.plants.PointMass().workspace, duration=0.1)
    far = 3e38  # twice it is infinite, and so is the center of the workspace
    low = popsim.PerMember([[-0.1, -0.1], [-0.1, -0.1], [far, -0.1]])
    high = popsim.PerMember([[0.1, 0.1], [0.1, 0.1], [1.1 * far, 0.1]])
    with pytest.raises(ValueError, match="`init"):
        popsim.evaluate_ensemble(
            ensemble,
            eqx.tree_at(lambda t: (t.workspace.low, t.workspace.high), task, (low, high)),
            key=jax.random.key(0),
        )


class HoldZero(popsim.AbstractTask):
    """Trials in which nothing is shown."""

    loss: popsim.Loss

    def trial(self, *, batch, key):
        target = popsim.OutputTarget(jnp.zeros((5, 1)), jnp.ones(5), is_choice=False)
        return popsim.Trial((), (), target, popsim.Timeline(DT, 5))

    def validation_trials(self):
        return jax.vmap(lambda key: self.trial(batch=0, key=key))(jax.random.split(jax.random.key(0), 2))


def test_a_network_may_have_no_inputs():
    def build(key):
        network = popsim.networks.LeakyRNN(0, 4, 1, tau=0.1, dt=DT, noise_std=0.1, key=key)
        return popsim.NetworkModel(network, dt=DT)

    task = HoldZero(1.0 * popsim.losses.OutputError())
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    assert popsim.n_network_inputs(task.validation_trials()) == 0
    losses = popsim.evaluate_ensemble(ensemble, task, key=jax.random.key(1)).losses.total
    assert losses.shape == (2, 2) and np.all(losses > 0)
