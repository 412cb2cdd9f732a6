"""What a network receives: its order, what a trained model takes, and the same activity when given again."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import reach, stacked
from short_form import mostly_in_full

import popsim
import popsim.senses
from popsim import Scaling, SensoryChannel, gymnasium, training
from popsim._shared.named_values import named_values
from popsim.analysis import dynamics, neural_activity
from popsim.analysis.trainables import loss_along_line
from popsim.experiments import open_run
from popsim.experiments.joined_ensembles import join_ensembles
from popsim.network_input import network_input
from popsim.networks import LSTMNetwork, unit_activity
from popsim.store import load_model, save_model


def test_inputs_come_before_feedback_both_by_name_and_scaled():
    received = network_input(
        {"target": jnp.array([1.0, 2.0]), "go": {"late": jnp.array([4.0]), "early": jnp.array(3.0)}},
        {"vision": jnp.array([5.0]), "body": jnp.array([6.0, 7.0])},
        {"target": Scaling([1.0, 0.0], 0.5), "body": Scaling(6.0, [1.0, 2.0])},
    )
    np.testing.assert_allclose(received, [3.0, 4.0, 0.0, 4.0, 0.0, 0.5, 5.0])
    unnamed = network_input(jnp.array([1.0, 2.0]), {}, {"inputs": Scaling(0.0, 2.0)})
    np.testing.assert_allclose(unnamed, [0.5, 1.0])


def test_the_number_of_inputs_is_that_of_targets_and_senses():
    arm = popsim.plants.TwoLinkArm.arm26_skeleton()
    trials = stacked(reach(start=arm.workspace.center))
    channels = {"vision": SensoryChannel(popsim.vision), "body": SensoryChannel(popsim.proprioception)}
    assert popsim.n_network_inputs(trials, arm, channels) == 2 + 4 + 4
    assert popsim.n_network_inputs(trials, arm, {}) == 2


class Named(popsim.AbstractTask):
    """Two inputs, of one number and of two, whose order in the network follows from their names."""

    names: tuple[str, str] = eqx.field(static=True)
    loss: popsim.Loss = 1.0 * popsim.losses.OutputError()

    def sizes(self):
        return sorted((name, size) for size, name in enumerate(self.names, 1))

    def trial(self, *, batch, key):
        inputs = {name: jnp.ones((3, size)) for name, size in self.sizes()}
        target = popsim.OutputTarget(inputs[self.names[0]], jnp.ones(3))
        return popsim.Trial((), inputs, target, popsim.Timeline(dt=0.1, n_steps=3))

    def validation_trials(self):
        return stacked(self.trial(batch=0, key=jax.random.key(0)))


KEY = jax.random.key(0)
TASK, RENAMED = Named(names=("a", "b")), Named(names=("c", "b"))
TRAINER = training.TaskTrainer(training.sgd(1e-2))
OPTIONS = {"ensembled": True, "disable_tqdm": True, "key": KEY}


def build(key):
    return popsim.NetworkModel(popsim.networks.VanillaRNN(3, 2, 1, key=key), dt=0.1)


def train(task, ensemble, trainer=TRAINER):
    return trainer(task, ensemble, 1, 2, lambda model: model.network, **OPTIONS)[0]


UNTRAINED = functools.cache(lambda: popsim.make_ensemble(build, 2, key=KEY))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a training, and the ensemble that it returned, are saved."""
    path = tmp_path_factory.mktemp("trained")
    trained = train(TASK, UNTRAINED(), training.TaskTrainer(training.sgd(1e-2), chkpt_dir=path / "training"))
    save_model(path / "model", trained)
    assert jax.tree.structure(trained) == jax.tree.structure(UNTRAINED())
    assert named_values("model", trained) == named_values("model", UNTRAINED())
    return path


@pytest.fixture(scope="module")
def loaded(folder):
    return load_model(folder / "model", UNTRAINED())


@pytest.fixture(scope="module")
def opened(folder):
    return open_run(folder / "training", task=TASK, build=build).ensemble


STATES = np.zeros((2, 1, 2))
USES = {
    "evaluate_ensemble": lambda m, task: popsim.evaluate_ensemble(m, task, key=KEY),
    "evaluate": lambda m, task: popsim.evaluate(popsim.member(m, 1), task, key=KEY),
    "simulate": lambda m, task: popsim.simulate(popsim.member(m, 1), task.trial(batch=0, key=KEY), key=KEY),
    "train": lambda m, task: train(task, m),
    "fixed points": lambda m, task: dynamics.find_fixed_points(m, STATES, inputs=constant_inputs(task)),
    "jacobians": lambda m, task: dynamics.input_jacobians(m, STATES, constant_inputs(task)),
    "received": lambda m, task: dynamics.received_inputs(m, states_of(m), task.validation_trials()),
    "line": lambda m, task: loss_along_line(UNTRAINED(), m, task, positions=np.array([0.0]), key=KEY),
    "join": lambda m, task: join_ensembles([m, with_inputs(m, dict(task.sizes()))], ["one", "other"]),
    "gymnasium": lambda m, task: gymnasium.TaskEnv(task, popsim.member(m, 0)),
}


def with_inputs(model, sizes):
    return dataclasses.replace(model, trained_inputs=sizes)


def constant_inputs(task):
    return {name: np.zeros(size) for name, size in task.sizes()}


def states_of(ensemble):
    return popsim.evaluate_ensemble(ensemble, TASK, key=KEY).states


@pytest.mark.parametrize("use", mostly_in_full(USES, ["evaluate_ensemble", "simulate", "received", "join"]))
def test_a_trained_model_takes_the_inputs_of_its_training_alone(use, loaded, opened):
    """Whoever read it from a folder; one that forgot them, or never was trained, takes any."""
    for trained in (loaded, opened):
        with pytest.raises(ValueError, match="trained, 1 of 'a', 2 of 'b', got 2 of 'b', 1 of 'c'"):
            USES[use](trained, RENAMED)
    USES[use](loaded, TASK)
    USES[use](with_inputs(loaded, None), RENAMED)


def test_a_trained_model_runs_by_the_programs_of_an_untrained_one(loaded, count_compilations):
    USES["evaluate_ensemble"](UNTRAINED(), TASK)
    with count_compilations() as compiled:
        USES["evaluate_ensemble"](loaded, TASK)
    assert not compiled


def test_training_and_validation_trials_must_have_the_same_inputs():
    class Other(Named):
        def validation_trials(self):
            return RENAMED.validation_trials()

    with pytest.raises(ValueError, match="trained, 2 of 'b', 1 of 'c', got 1 of 'a', 2 of 'b'"):
        train(Other(names=TASK.names), UNTRAINED())


@pytest.mark.slow
def test_a_network_of_two_states_in_a_loop_follows_what_it_received_and_is_analysed():
    plant = popsim.plants.PointMass()
    task = popsim.tasks.CenterOutReaches(plant.workspace, duration=0.2, dt=0.02)
    channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.04)}
    trials = task.validation_trials()
    n_inputs = popsim.n_network_inputs(trials, plant, channels)

    def build(key):
        network = LSTMNetwork(n_inputs, 5, plant.n_commands, key=key)
        return popsim.SensorimotorLoop(network, plant, channels, dt=0.02)

    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    states = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(1)).states
    received = dynamics.received_inputs(ensemble, states, trials)
    assert {name: values.shape for name, values in received.items()} == {
        "target": (2, 8, 10, 2),
        "vision": (2, 8, 10, 4),
    }
    np.testing.assert_array_equal(received["vision"], states.feedback["vision"])
    hidden = np.concatenate(states.network.hidden, axis=-1).astype(np.float64)
    for member in range(2):
        model = popsim.member(ensemble, member)
        follow = jax.vmap(lambda inputs, own, model=model: dynamics.network_dynamics(model, own, inputs))
        last = {name: values[member, :, -1].astype("f4") for name, values in received.items()}
        following = follow(last, hidden[member, :, -2].astype("f4"))
        np.testing.assert_allclose(following, hidden[member, :, -1], atol=1e-6)
    found = neural_activity.principal_components(unit_activity(ensemble, states), n_components=2)
    assert found.projections.shape == (2, 8, 10, 2)
    visited = hidden.astype("f4").reshape(2, -1, 10)
    inputs = {name: values[:, 0, 0] for name, values in received.items()}
    points = dynamics.find_fixed_points(ensemble, visited[:, :20], inputs=inputs).fixed
    jacobians = dynamics.state_jacobians(ensemble, visited[:, :3], inputs=inputs)
    assert points.state.shape[-1] == 10 and jacobians.shape == (2, 3, 10, 10)


def loop_and_task():
    """An ensemble whose input is after its sense in the alphabet, yet before it in the network's vector."""
    plant = popsim.plants.PointMass()
    task = popsim.tasks.CenterOutReaches(plant.workspace, duration=0.2, dt=0.02)
    channels = {"body": popsim.SensoryChannel(popsim.proprioception)}

    def build(key):
        n_inputs = popsim.n_network_inputs(task.validation_trials(), plant, channels)
        network = popsim.networks.LeakyRNN(n_inputs, 3, plant.n_commands, tau=0.1, dt=0.02, key=key)
        return popsim.SensorimotorLoop(network, plant, channels, dt=0.02)

    return popsim.make_ensemble(build, 2, key=jax.random.key(0)), task, plant, channels


@pytest.mark.slow
def test_constant_inputs_are_taken_by_name(as_users_run):
    ensemble, task, plant, channels = loop_and_task()
    names = popsim.senses.network_input_names(task.validation_trials(), plant, channels)
    assert names == {"target": 2, "body": 4} and list(names) == ["target", "body"]
    target, body = np.array([0.3, -0.2]), np.array([1.0, 2.0, 3.0, 4.0])

    def rollout(inputs, model=ensemble):
        return dynamics.rollout(model, np.zeros((2, 1, 3)), 1, inputs=inputs)

    found = rollout({"body": body, "target": target})
    vector = np.concatenate([target, body])
    network = popsim.member(ensemble, 0).network
    following = network.step(jnp.asarray(vector, jnp.float32), jnp.zeros(3), key=jax.random.key(0))
    np.testing.assert_allclose(found[0, 0, 0], following, rtol=1e-5)
    np.testing.assert_array_equal(rollout({"all": vector}, ensemble.network), found)
    for bad, model, message in (
        (vector, ensemble, "`inputs` must be by name"),
        ({"target": target}, ensemble, "the senses \\['body'\\] by name"),
        ({"target": target, "vision": body}, ensemble, "the senses \\['body'\\] by name"),
        ({"target": body, "body": body}, ensemble, "`inputs` must be 6 numbers, got"),
        ({}, ensemble, "by name, got \\[\\]"),
        ({"target": target, "body": body}, ensemble.network, "must have one name: .* give the model"),
        (vector, ensemble.network, "`inputs` must be by name"),
    ):
        with pytest.raises(ValueError, match=message):
            rollout(bad, model)
