"""After its environment has ended a trial, no loss of the library counts anything."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT, reach
from short_form import every_nth
from small_environments import Counter, Follow, trial_with

import popsim
from popsim import losses
from popsim.policies import Categorical
from popsim.tasks import RecordedActivity

N_STEPS, N_ACTIVE = 7, 4
KEY = jax.random.key(0)
OF_BODY = [
    losses.PositionError(),
    losses.VelocityError(),
    losses.FinalPosition(),
    losses.FinalVelocity(),
    losses.FinalState(),
    losses.Straightness(),
    losses.Hold(popsim.windows.Between(0.02, 0.07)),
    losses.ObstacleEntry(),
    losses.Acceleration(),
    losses.Jerk(),
    losses.MuscleActivation(),
    losses.MuscleForce(),
    losses.MuscleForceChange(),
]
OF_NETWORK = [
    losses.Effort(),
    losses.EffortChange(),
    losses.HiddenActivity(),
    losses.HiddenActivityChange(),
    losses.WeightPenalty(lambda model: model.network.readout.weight),
    losses.RecurrentSensitivity(),
    losses.OutputError(),
    losses.CrossEntropy(),
    losses.ChoiceError(),
    losses.VanishingGradient(losses.OutputError()),
    losses.PolicyGradient(gae_lambda=0.9),
    losses.ValueRegression(),
    losses.Entropy(),
    losses.ChoiceLikelihood(),
    losses.RateError(),
    losses.SpikeCountLikelihood(rates="rates"),
]


def names(terms):
    return {type(term).__name__ for term in terms}


def test_all_terms_of_the_library_are_here():
    public = {name for name in losses.__all__ if isinstance(getattr(losses, name), type)}
    terms = {name for name in public if issubclass(getattr(losses, name), popsim.AbstractLossTerm)}
    assert names(OF_BODY) | names(OF_NETWORK) == terms


@pytest.fixture(scope="module")
def with_body():
    body = popsim.plants.arm26()
    center = body.workspace.center
    plain = reach(N_STEPS, start=center, target=center + 0.05)
    target = jax.tree.map(lambda leaf: leaf[-1], plain.targets)
    obstacle = {"obstacle": plain.inputs["target"], "obstacle radius": jnp.full((N_STEPS, 1), 0.2)}
    parts = {"init": plain.init, "inputs": plain.inputs | obstacle, "targets": plain.targets}
    trial = trial_with(Follow(target), n_steps=N_STEPS, **parts)
    network = popsim.networks.LeakyRNN(7, 5, 6, tau=0.05, output_fn=jax.nn.sigmoid, key=KEY)
    model = popsim.SensorimotorLoop(network, body, {}, dt=DT)
    return popsim.simulate(model, trial, key=KEY), trial, model


@pytest.fixture(scope="module")
def without_body():
    values = jax.nn.one_hot(jnp.arange(N_STEPS) % 3, 3)
    targets = popsim.OutputTarget(values, jnp.ones(N_STEPS))
    environment = Counter(jnp.asarray(float(N_ACTIVE)))
    recordings = {"rates": RecordedActivity(jnp.ones((N_STEPS, 5)), jnp.ones((N_STEPS, 1)))}
    trial = trial_with(environment, n_steps=N_STEPS, targets=targets, recordings=recordings)
    network = popsim.networks.LeakyRNN(1, 5, 3, tau=0.05, key=KEY)
    model = popsim.NetworkModel(network, policy=Categorical(2, critic=True), dt=DT)
    return popsim.simulate(model, trial, key=KEY), trial, model


def ended(states, after):
    """The states, with others after the last active step."""
    is_active = jnp.arange(N_STEPS) < N_ACTIVE

    def changed(leaf):
        drawn = jax.random.normal(KEY, leaf.shape)
        other = drawn > 0 if leaf.dtype == bool else (after + drawn).astype(leaf.dtype)
        shape = (-1, *[1] * (leaf.ndim - 1))
        return jnp.where(is_active.reshape(shape), leaf, other)

    states = jax.tree.map(changed, states)
    reward = jnp.where(is_active, states.interaction.reward, 0)
    seen = dataclasses.replace(states.interaction, active=is_active, reward=reward)
    return dataclasses.replace(states, interaction=seen)


def assert_blind_after_the_end(term, states, trial, model):
    """Of ChoiceLikelihood the policy has two actions and the target three outputs: it gets its own."""
    if isinstance(term, losses.ChoiceLikelihood):
        two = popsim.OutputTarget(trial.targets.values[:, :2], trial.targets.counts)
        trial = dataclasses.replace(trial, targets=two)
    values = [term(ended(states, after), trial, model) for after in (0.0, 3.0)]
    np.testing.assert_array_equal(*values)
    whole = term(states, trial, model)
    assert np.isfinite(whole) and np.isfinite(values[0])


@pytest.mark.parametrize("term", every_nth(OF_BODY, 4, name_of=lambda term: type(term).__name__))
def test_terms_of_a_body_are_blind_after_the_end(term, with_body):
    assert_blind_after_the_end(term, *with_body)


@pytest.mark.parametrize("term", every_nth(OF_NETWORK, 4, name_of=lambda term: type(term).__name__))
def test_terms_of_a_network_are_blind_after_the_end(term, without_body):
    assert_blind_after_the_end(term, *without_body)


def test_a_final_term_is_of_the_step_at_which_the_trial_ended(with_body):
    states, trial, model = with_body
    at_end = states.cursor.position[N_ACTIVE - 1] - trial.environment.target.position
    value = losses.FinalPosition()(ended(states, 0.0), trial, model)
    np.testing.assert_allclose(value, jnp.sum(at_end**2), rtol=1e-6)


def test_a_mean_of_the_output_is_over_the_steps_before_the_end(without_body):
    states, trial, model = without_body
    output, values = (x[:N_ACTIVE] for x in (states.network.output, trial.targets.values))
    value = losses.OutputError()(states, trial, model)
    np.testing.assert_allclose(value, jnp.mean((output - values) ** 2), rtol=1e-6)
