"""All terms at once in the training of an ensemble."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_training import OPTIMIZER

import popsim
from popsim import PerMember, losses
from popsim.training import TaskTrainer

pytestmark = pytest.mark.slow

DT = 0.01
EARLY = popsim.windows.Between(0.0, 0.03)


def recurrent(model):
    return model.network.recurrent_weights


def trained(task, ensemble):
    options = {"ensembled": True, "log_step": 10, "disable_tqdm": True, "key": jax.random.key(1)}
    model, history = TaskTrainer(OPTIMIZER)(task, ensemble, 3, 4, lambda model: model.network, **options)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))
    return history.loss.terms


@pytest.mark.full  # in short: those of a network, and each term in test_losses
def test_those_of_a_body_with_muscles():
    kinds = [losses.VelocityError, losses.FinalPosition, losses.FinalVelocity, losses.FinalState]
    kinds += [losses.Straightness, losses.Acceleration, losses.Jerk, losses.Effort, losses.EffortChange]
    kinds += [losses.HiddenActivity, losses.HiddenActivityChange]
    kinds += [losses.MuscleActivation, losses.MuscleForce, losses.MuscleForceChange]
    bent = losses.HuberDistance(PerMember([0.01, 0.1]))
    loss = losses.PositionError(distance=bent, profile=losses.PowerProfile(window=EARLY)) + losses.Hold(EARLY)
    loss = loss + losses.WeightPenalty(recurrent, distance=losses.L1Distance())
    for kind in kinds:
        loss = loss + 1e-3 * kind()
    plant = popsim.plants.muscled_point_mass(solver=diffrax.Euler(), n_substeps=1)  # soon compiled
    task = popsim.tasks.RandomReaches(plant.workspace, duration=0.08, loss=loss)
    channels = {"vision": popsim.SensoryChannel(popsim.vision)}
    n_inputs = popsim.n_network_inputs(task.validation_trials(), plant, channels)

    def build(key):
        network = popsim.networks.LeakyRNN(
            n_inputs, 5, plant.n_commands, tau=0.05, dt=DT, output_fn=jax.nn.sigmoid, key=key
        )
        return popsim.SensorimotorLoop(network, plant, channels, dt=DT)

    terms = trained(task, popsim.make_ensemble(build, 2, key=jax.random.key(0)))
    assert len(terms) == 17 and all(values.shape == (3, 2) for values in terms.values())
    assert all(np.all(np.isfinite(values)) and np.any(values > 0) for values in terms.values())
    np.testing.assert_array_less(terms["position error"][:, 0], terms["position error"][:, 1])


class Remember(popsim.AbstractTask):
    """Say which of two inputs was there; a catch trial asks nothing."""

    loss: popsim.Loss

    def trial(self, *, batch, key):
        plan = popsim.TrialPlan(
            (popsim.Epoch("stimulus", 0.05), popsim.Epoch("decision", event="go cue")),
            duration=0.1,
            dt=DT,
            catch_event="go cue",
            catch_probability=0.5,
        )
        timeline = plan.draw(key=popsim.key_stream(key, "timeline"))
        shown = jax.nn.one_hot(jax.random.randint(popsim.key_stream(key, "side"), (), 0, 2), 2)
        inputs = jnp.where(timeline.in_epoch("stimulus")[:, None], shown, 0.0)
        counts = timeline.in_epoch("decision").astype(float)
        target = popsim.OutputTarget(jnp.broadcast_to(shown, inputs.shape), counts)
        return popsim.Trial((), inputs, target, timeline)

    def validation_trials(self):
        return jax.vmap(lambda key: self.trial(batch=0, key=key))(jax.random.split(jax.random.key(0), 4))


@pytest.mark.full
def test_those_of_a_network_with_catch_trials():
    loss = losses.CrossEntropy() + losses.ChoiceError() + losses.OutputError()
    loss = loss + PerMember([0.0, 1e-3]) * losses.WeightPenalty(recurrent)

    def build(key):
        return popsim.NetworkModel(popsim.networks.LeakyRNN(2, 5, 2, tau=0.05, dt=DT, key=key), dt=DT)

    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    terms = trained(Remember(loss), ensemble)
    assert all(np.all(np.isfinite(values)) for values in terms.values())
    assert np.all(terms["weight penalty"][:, 0] == 0) and np.all(terms["weight penalty"][:, 1] > 0)
    weights = np.asarray(ensemble.network.recurrent_weights)[1]
    np.testing.assert_allclose(terms["weight penalty"][0, 1], 1e-3 * np.sum(weights**2), rtol=1e-5)
