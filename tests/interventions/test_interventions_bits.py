"""An intervention costs nothing where it is not scheduled, and changes nothing where it is not active."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_intervention import MODELS, N_STEPS, ONSET, scheduled
from relay import reach

import popsim


def differ(one, other):
    """At which steps anything of two recordings differs; leaves lead with time."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return np.any([np.any(np.reshape(a != b, (len(a), -1)), axis=1) for a, b in pairs], axis=0)


OPTIONAL = {"unit_input", "received", "external_torque", "start"}


def common(states):
    """What is recorded also where nothing is scheduled."""
    return {name: value for name, value in vars(states).items() if name not in OPTIONAL}


N_ROWS = 32  # of full vectors alone: XLA rounds what is left over in another way


@functools.cache
def runs(kind):
    """One trial for each intervention, in which it alone acts from `ONSET` on, then trials without any."""
    build, of_model = MODELS[kind]
    acting = np.eye(N_ROWS, len(of_model), dtype=bool)[:, :, None] & (np.arange(N_STEPS) >= ONSET)
    trials = jax.vmap(lambda active: scheduled(of_model, active))(jnp.asarray(acting))
    model = build(of_model)
    key = jax.random.key(1)
    return jax.jit(jax.vmap(lambda trial: popsim.simulate(model, trial, key=key)))(trials)


def row(kind, index):
    return jax.tree.map(lambda leaf: np.asarray(leaf[index]), common(runs(kind)))


@pytest.mark.parametrize("kind", MODELS)
def test_an_intervention_changes_the_trial_from_its_first_step_on_and_no_bit_before(kind):
    for index, own in enumerate(MODELS[kind][1]):
        changed = differ(row(kind, index), row(kind, -1))
        assert not changed[:ONSET].any() and changed[ONSET + 1 :].all(), own.name
        if own.name == "joint torque":
            torque = (np.arange(N_STEPS) >= ONSET)[:, None] * np.array([0.5, -1.0])
            np.testing.assert_array_equal(runs(kind).external_torque[index], torque)


@pytest.mark.parametrize("kind", MODELS)
def test_interventions_that_are_never_active_leave_the_numbers_as_they_are(kind, getkey):
    """But for rounding, as XLA puts another program together; what only they need is not recorded."""
    build, of_model = MODELS[kind]
    plain = popsim.simulate(build(of_model), reach(N_STEPS), key=jax.random.key(1))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), common(plain), row(kind, -1))
    for name in OPTIONAL & set(vars(plain)):
        assert getattr(plain, name) is None and getattr(runs(kind), name) is not None


@pytest.mark.parametrize("kind", MODELS)
def test_an_intervention_that_is_not_scheduled_adds_no_operation(kind, getkey):
    build, of_model = MODELS[kind]

    def program(held):
        model = build(held)
        return str(jax.make_jaxpr(lambda key: popsim.simulate(model, reach(), key=key))(getkey()))

    assert program(of_model) == program(())
