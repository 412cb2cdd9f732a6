"""Learning rules and constraints in the trainer, step by step."""

import equinox as eqx
import jax
import numpy as np
import pytest
from short_form import mostly_in_full
from small_training import OPTIMIZER, arrays_of, assert_same, build, member_of, train

import popsim
from popsim.training import TaskTrainer, constraints, rules

pytestmark = pytest.mark.slow

MASK = np.arange(25).reshape(5, 5) % 3 > 0
SIGNS = constraints.dale_signs(5, 0.6)


def recurrent(model):
    return model.network.recurrent_weights


HOLD = (
    constraints.DalesLaw(recurrent, SIGNS),
    constraints.SparsityMask(recurrent, MASK),
    constraints.ZeroDiagonal(recurrent),
    constraints.Range(lambda m: m.network.bias, -0.01, 0.02),
    constraints.UnitNorm(lambda m: m.network.input_weights, axis=0),
    constraints.SpectralNorm(lambda m: m.network.readout.weight, 0.3),
)
HEBB = rules.Hebb(rules.recurrent_synapses(), 0.1)
TRAINER = TaskTrainer(OPTIMIZER, model_update_funcs=(HEBB,), post_step_fns=HOLD)


def assert_all_hold(weights):
    """For trainables with any leading axes."""
    assert np.all(weights.recurrent_weights * SIGNS >= 0)
    assert np.all(weights.recurrent_weights[..., ~MASK] == 0)
    assert np.all(np.diagonal(weights.recurrent_weights, axis1=-2, axis2=-1) == 0)
    assert np.all((weights.bias >= np.float32(-0.01)) & (weights.bias <= np.float32(0.02)))
    np.testing.assert_allclose(np.linalg.norm(weights.input_weights, axis=-2), 1, rtol=1e-6)
    assert np.all(np.linalg.norm(weights.readout.weight, ord=2, axis=(-2, -1)) <= 0.3 * (1 + 1e-6))


def test_constraints_hold_after_every_batch():
    _, history = train(8, trainer=TRAINER, save_model_trainables=True)
    weights = history.model_trainables.network
    assert weights.recurrent_weights.shape == (8, 2, 5, 5)
    assert_all_hold(weights)
    assert np.all(weights.recurrent_weights[1] != weights.recurrent_weights[0], axis=0).any()
    assert np.any(weights.bias == np.float32(0.02)) or np.any(weights.bias == np.float32(-0.01))


RECURRENT = rules.recurrent_synapses()
RULES = [
    HEBB,
    rules.AntiHebb(rules.input_synapses(), 0.01),
    rules.Oja(rules.readout_synapses(), 0.01),
    rules.CovarianceHebb(RECURRENT, 0.01),
    rules.DifferentialHebb(RECURRENT, 0.01),
    rules.NodePerturbation(RECURRENT, 0.01, std=0.05),
    rules.WeightPerturbation(rules.input_synapses(), 0.01, std=0.05),
    rules.BCM(RECURRENT, 0.01, time_constant=3.0),
    rules.RewardModulatedHebb(RECURRENT, 0.01, baseline=rules.RunningBaseline(time_constant=3.0)),
]
SHORT = ("RewardModulatedHebb",)


@pytest.mark.parametrize("rule", mostly_in_full(RULES, SHORT, name_of=lambda rule: type(rule).__name__))
def test_a_rule_trains_each_member_as_alone(rule):
    """At a rate of its own; one with a rate of zero is as without the rule."""
    by_member = eqx.tree_at(lambda own: own.rate, rule, popsim.PerMember([0.0, float(rule.rate)]))
    together, _ = train(4, trainer=TaskTrainer(OPTIMIZER, model_update_funcs=(by_member,)))
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    alone, _ = train(
        4,
        n_members=0,
        trainer=TaskTrainer(OPTIMIZER, model_update_funcs=(rule,)),
        ensemble=popsim.member(ensemble, 1),
        members=popsim.member_grid(2).select(1),
    )
    assert_same(member_of(together, 1), alone, atol=1e-6)
    plain, _ = train(4, trainer=TaskTrainer(OPTIMIZER))
    assert_same(member_of(together, 0), member_of(plain, 0), atol=1e-6)
    pairs = zip(arrays_of(member_of(together, 1)), arrays_of(member_of(plain, 1)), strict=True)
    assert max(np.abs(own - without).max() for own, without in pairs) > 1e-5
