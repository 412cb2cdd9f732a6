"""A network whose hidden state is a pair of arrays, in every place where a network can stand."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT, reach

import popsim
from popsim import interventions
from popsim.analysis import dynamics, neural_activity
from popsim.networks import LSTMNetwork, unit_activity
from popsim.training import TaskTrainer, adam

N_UNITS, N_STEPS, ONSET, KEY = 4, 8, 3, jax.random.key(5)


ONE = jnp.eye(N_UNITS)[0]
ON_UNITS = {
    interventions.ClampUnits: interventions.ClampUnitsParameters(ONE, 0.7 * ONE),
    interventions.SilenceUnits: ONE,
    interventions.StimulateUnits: 0.5 * ONE,
    interventions.UnitNoise: jnp.array(0.3),
    interventions.UnitInput: 2.0 * ONE,
}


def loop(key=KEY, held=()):
    """A loop with a point mass."""
    channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.02, noise=popsim.GaussianNoise(0.01))}
    network, plant = LSTMNetwork(6, N_UNITS, 2, key=key), popsim.plants.PointMass()
    return popsim.SensorimotorLoop(network, plant, channels, interventions=held, dt=DT)


def alone(key=KEY, held=()):
    return popsim.NetworkModel(LSTMNetwork(2, N_UNITS, 2, key=key), held, dt=DT)


MODELS = {"loop": loop, "network": alone}


@functools.cache
def simulated(kind):
    """A trial of each intervention on units, in which it alone acts from `ONSET` on, and one without any."""
    model = MODELS[kind](held=tuple(kind_of() for kind_of in ON_UNITS))
    names = [own.name for own in model.interventions]

    def states(acting):
        active = (jnp.arange(N_STEPS) >= ONSET) & (jnp.arange(len(names))[:, None] == acting)
        schedules = {
            name: interventions.InterventionSchedule(given, active[i])
            for i, (name, given) in enumerate(zip(names, ON_UNITS.values(), strict=True))
        }
        trial = dataclasses.replace(reach(N_STEPS), interventions=schedules)
        return trial, popsim.simulate(model, trial, key=KEY)

    trials, runs = jax.jit(jax.vmap(states))(jnp.arange(len(names) + 1))
    runs = jax.tree.map(np.asarray, runs)
    rows = [jax.tree.map(lambda leaf, i=i: leaf[i], runs) for i in range(len(names) + 1)]
    return model, jax.tree.map(lambda leaf: leaf[0], trials), dict(zip([*names, None], rows, strict=True))


@pytest.mark.parametrize("kind", MODELS)
def test_interventions_act_on_the_activity(kind):
    *_, runs = simulated(kind)
    h, c = runs[None].network.hidden
    for name, states in runs.items():
        own_h, own_c = states.network.hidden
        np.testing.assert_array_equal(own_h[:ONSET], h[:ONSET])
        if name not in (None, "unit input"):
            np.testing.assert_array_equal(own_c[ONSET], c[ONSET])
            assert np.all(own_h[ONSET, 0] != h[ONSET, 0]) and np.any(own_c[ONSET + 1] != c[ONSET + 1])
    first = {name: states.network.hidden[0][ONSET] for name, states in runs.items()}
    assert first["clamp units"][0] == np.float32(0.7) and first["silence units"][0] == 0
    np.testing.assert_allclose(first["stimulate units"], h[ONSET] + 0.5 * ONE, rtol=1e-6)
    changed = runs["unit input"].network.hidden[1][ONSET] != c[ONSET]
    np.testing.assert_array_equal(changed, [True, False, False, False])


def test_losses_score_the_activity():
    model, trial, runs = simulated("network")
    h, _ = runs[None].network.hidden
    states = jax.tree.map(jnp.asarray, runs[None])
    found = popsim.losses.HiddenActivity()(states, trial, model)
    np.testing.assert_allclose(found, np.sum(h**2), rtol=1e-5)
    found = popsim.losses.HiddenActivityChange()(states, trial, model)
    np.testing.assert_allclose(found, np.sum((np.diff(h, axis=0) / DT) ** 2), rtol=1e-5)


@pytest.fixture(scope="module")
def trained():
    """Two loops, trained by gradient for two batches."""
    return train_loops(2)


def train_loops(n_batches, *, resumes=False, **options):
    """Return the task, the loops before and after their training, and its history."""
    loss = popsim.losses.PositionError() + 1e-3 * popsim.losses.HiddenActivity()
    workspace = popsim.plants.PointMass().workspace
    task = popsim.tasks.CenterOutReaches(workspace, duration=N_STEPS * DT, loss=loss)
    ensemble = popsim.make_ensemble(loop, 2, key=KEY)
    trainer = TaskTrainer(adam(1e-2), **options)
    how = dict(where_train=network_of, ensembled=True, save_model_trainables=True, key=KEY)
    how |= {"log_step": 2, "disable_tqdm": True, "restore_checkpoint": resumes}
    return task, ensemble, *trainer(task, ensemble, n_batches, 4, **how)


def network_of(model):
    return model.network


@pytest.mark.slow
def test_its_activity_is_analysed(trained):
    task, _, after, _ = trained
    states = popsim.evaluate_ensemble(after, task, key=KEY).states
    found = neural_activity.principal_components(unit_activity(after, states), n_components=2)
    assert found.projections.shape == (2, 8, N_STEPS, 2)
    visited = np.concatenate(states.network.hidden, axis=-1).reshape(2, -1, 2 * N_UNITS)
    received = dynamics.received_inputs(after, states, task.validation_trials())
    inputs = {name: values[:, 0, 0] for name, values in received.items()}
    points = dynamics.find_fixed_points(after, visited[:, :20], inputs=inputs).fixed
    jacobians = dynamics.state_jacobians(after, visited[:, :3], inputs=inputs)
    assert points.state.shape[-1] == 2 * N_UNITS and jacobians.shape == (2, 3, 2 * N_UNITS, 2 * N_UNITS)
    one = popsim.member(after, 0)
    of_one = {name: jnp.asarray(values[0], jnp.float32) for name, values in inputs.items()}
    following = dynamics.network_dynamics(one, jnp.asarray(visited[0, 5]), of_one)
    composed = jnp.concatenate(list(of_one.values()))
    pair = one.network.step(composed, tuple(jnp.split(visited[0, 5], 2)), key=KEY)
    np.testing.assert_allclose(following, jnp.concatenate(pair), rtol=1e-6)
