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
ARGUMENTS = {
    "Hold": {"window": popsim.windows.Between(0.02, 0.07)},
    "WeightPenalty": {"where": lambda model: model.network.readout.weight},
    "VanishingGradient": {"error": losses.OutputError()},
    "PolicyGradient": {"gae_lambda": 0.9},
    "SpikeCountLikelihood": {"rates": "rates"},
}
KINDS = {name: getattr(losses, name) for name in losses.__all__}
TERMS = {
    name: kind(**ARGUMENTS.get(name, {}))
    for name, kind in KINDS.items()
    if isinstance(kind, type) and issubclass(kind, popsim.AbstractLossTerm)
}


def has_body(name):
    return "Muscle" in name or KINDS[name].__module__.endswith(".reach")


OF_BODY = [TERMS[name] for name in TERMS if has_body(name)]
OF_CHOICES = [TERMS["ChoiceLikelihood"]]  # of as many as the policy has, in place of the outputs
OF_NETWORK = [TERMS[name] for name in TERMS if not has_body(name) and name != "ChoiceLikelihood"]


def test_all_terms_of_the_library_have_names_of_their_own():
    assert len({term.name for term in TERMS.values()}) == len(TERMS) > 20


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
    """The value of each term and the sum over its steps, by one program for all of them.

    In the states as they are, and in two that differ after the last active step.
    """
    runs = jax.tree.map(lambda *leaves: jnp.stack(leaves), states, ended(states, 0.0), ended(states, 3.0))

    @jax.vmap
    def of_run(states):
        parts = states, trial, model
        return [(jnp.asarray(term(*parts)), sum_of_costs(term, *parts)) for term in terms]

    return of_run(runs)


CASES = [(with_body, OF_BODY), (without_body, OF_NETWORK), (of_two_choices, OF_CHOICES)]


@pytest.mark.parametrize("run, terms", CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_terms_are_sums_of_their_steps_and_blind_after_the_end(run, terms):
    for term, (values, steps) in zip(terms, facts(terms, *run()), strict=True):
        assert np.all(np.isfinite(values)) and values[1] == values[2], term
        if steps is not None:
            np.testing.assert_allclose(steps, values, rtol=1e-5, atol=1e-9, err_msg=term.name)


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
