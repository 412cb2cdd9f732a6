"""What every loss term of the library promises: steps that sum up, and blindness after the end."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from loss_values import sum_of_costs
from relay import DT, reach
from small_environments import Counter, Follow, trial_with

import popsim
from popsim import losses
from popsim.policies import Categorical
from popsim.tasks import RecordedActivity

N_STEPS, N_ACTIVE = 7, 4
KEY = jax.random.key(0)
LOOKING_BACK = [losses.EffortChange(), losses.HiddenActivityChange(), losses.RecurrentSensitivity()]
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
    *LOOKING_BACK,
    losses.Effort(),
    losses.HiddenActivity(),
    losses.WeightPenalty(lambda model: model.network.readout.weight),
    losses.OutputError(),
    losses.CrossEntropy(),
    losses.ChoiceError(),
    losses.VanishingGradient(losses.OutputError()),
    losses.PolicyGradient(gae_lambda=0.9),
    losses.ValueRegression(),
    losses.Entropy(),
    losses.RateError(),
    losses.SpikeCountLikelihood(rates="rates"),
]
OF_CHOICES = [losses.ChoiceLikelihood()]  # of as many as the policy has, in place of the outputs


def test_all_terms_of_the_library_are_here_and_have_names_of_their_own():
    public = [getattr(losses, name) for name in losses.__all__]
    kinds = {kind for kind in public if isinstance(kind, type) and issubclass(kind, popsim.AbstractLossTerm)}
    terms = [*OF_BODY, *OF_NETWORK, *OF_CHOICES]
    assert {type(term) for term in terms} == kinds and len({term.name for term in terms}) == len(kinds)


@functools.cache
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


@functools.cache
def without_body():
    targets = popsim.OutputTarget(jax.nn.one_hot(jnp.arange(N_STEPS) % 3, 3), jnp.ones(N_STEPS))
    environment = Counter(jnp.asarray(float(N_ACTIVE)))
    recordings = {"rates": RecordedActivity(jnp.ones((N_STEPS, 5)), jnp.ones((N_STEPS, 1)))}
    trial = trial_with(environment, n_steps=N_STEPS, targets=targets, recordings=recordings)
    network = popsim.networks.LeakyRNN(1, 5, 3, tau=0.05, key=KEY)
    model = popsim.NetworkModel(network, policy=Categorical(2, critic=True), dt=DT)
    return popsim.simulate(model, trial, key=KEY), trial, model


def of_two_choices():
    states, trial, model = without_body()
    two = popsim.OutputTarget(trial.targets.values[:, :2], trial.targets.counts)
    return states, dataclasses.replace(trial, targets=two), model


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


@eqx.filter_jit
def facts(terms, states, trial, model):
    """What is known of each term, by one program for all of them."""

    def of(term):
        return {
            "value": term(states, trial, model),
            "steps": sum_of_costs(term, states, trial, model),
            "ended": [term(ended(states, after), trial, model) for after in (0.0, 3.0)],
            "ended steps": sum_of_costs(term, ended(states, 0.0), trial, model),
        }

    return [of(term) for term in terms]


CASES = [(with_body, OF_BODY), (without_body, OF_NETWORK), (of_two_choices, OF_CHOICES)]


@pytest.mark.parametrize("run, terms", CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_terms_are_sums_of_their_steps_and_blind_after_the_end(run, terms):
    for term, of in zip(terms, facts(terms, *run()), strict=True):
        value, (one, other) = of["value"], of["ended"]
        assert np.isfinite(value) and np.isfinite(one) and one == other, term
        for whole, steps in ((value, of["steps"]), (one, of["ended steps"])):
            if steps is not None:
                np.testing.assert_allclose(steps, whole, rtol=1e-5, atol=1e-9, err_msg=term.name)


def test_what_is_final_is_of_the_step_at_which_the_trial_ended():
    states, trial, model = with_body()
    at_end = states.cursor.position[N_ACTIVE - 1] - trial.environment.target.position
    value = losses.FinalPosition()(ended(states, 0.0), trial, model)
    np.testing.assert_allclose(value, jnp.sum(at_end**2), rtol=1e-6)


def test_a_mean_of_the_output_is_over_the_steps_before_the_end():
    states, trial, model = without_body()
    output, values = (x[:N_ACTIVE] for x in (states.network.output, trial.targets.values))
    value = losses.OutputError()(states, trial, model)
    np.testing.assert_allclose(value, jnp.mean((output - values) ** 2), rtol=1e-6)
