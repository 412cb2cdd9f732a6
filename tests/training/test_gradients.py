"""Gradients other than back-propagation, by the contract of `AbstractGradient`."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import small_training
from jax.flatten_util import ravel_pytree
from small_training import assert_same, planned, train

from popsim import PerMember
from popsim.training import (
    AbstractGradient,
    BackpropThroughTime,
    PopulationBasedTraining,
    TaskTrainer,
    Truncation,
    adam,
    rules,
    sgd,
)
from popsim.training.loop.change_checks import check_changes


class ForwardMode(AbstractGradient):
    """The exact gradient by one Jacobian-vector product for each parameter."""

    def __call__(self, run, params, carry, *, key):
        weights, unravel = ravel_pytree(params)

        def differentiate(part):
            def derivative(direction):
                return jax.jvp(lambda weights: part(unravel(weights)).mean_loss, (weights,), (direction,))[1]

            return unravel(jax.vmap(derivative)(jnp.eye(weights.size, dtype=weights.dtype))), part(params)

        gradients, batch = run.map_minibatches(differentiate)
        return gradients, batch, carry


class Counted(AbstractGradient):
    """Random gradients; its carry counts the batches, and grows by a factor."""

    factor: float | PerMember = 1.0

    def init(self, params, model, *, key):
        return {"count": 0, "size": 1.0, "trained": jnp.zeros(len(jax.tree.leaves(params)))}

    def __call__(self, run, params, carry, *, key):
        gradients = jax.tree.map(lambda leaf: 0.1 * jax.random.normal(key, leaf.shape), params)
        return (
            gradients,
            run(params),
            {**carry, "count": carry["count"] + 1, "size": carry["size"] * self.factor},
        )


@pytest.mark.full
def test_forward_mode_is_back_propagation_to_rounding():
    """With phases, minibatches and a rule, which learns from the states of the unperturbed parameters."""
    where_train = {0: lambda model: model.network.readout, 3: small_training.network}
    options = {"n_minibatches": 2, "model_update_funcs": (rules.Oja(rules.recurrent_synapses(), rate=1e-3),)}
    (one, history), (other, other_history) = (
        train(trainer=TaskTrainer(adam(1e-2), gradient=gradient, **options), where_train=where_train)
        for gradient in (ForwardMode(), BackpropThroughTime())
    )
    assert_same(one, other, rtol=2e-4, atol=2e-6)
    assert_same(history.loss, other_history.loss, rtol=1e-5, atol=1e-6)


def test_the_gradient_of_minibatches_is_that_of_the_batch(float64):
    """By plain descent: Adam, or clipping, would hide a factor."""
    (whole, history), (parts, own) = (
        train(2, trainer=TaskTrainer(sgd(1e-2), n_minibatches=n_minibatches)) for n_minibatches in (1, 2)
    )
    assert_same(parts, whole, rtol=0, atol=1e-9)
    np.testing.assert_allclose(own.loss.total, history.loss.total, rtol=1e-12)


def test_a_carry_resumes_bit_for_bit_and_its_key_differs_by_batch_and_member(tmp_path):
    def trained(folder=None, stop=None, **options):
        trainer = TaskTrainer(adam(1e-2), chkpt_dir=folder, stop=stop, gradient=Counted(1.5))
        return train(6, trainer=trainer, log_step=2, save_model_trainables=True, **options)

    whole, history = trained()
    told = iter([False, False, True])
    assert trained(tmp_path / "parts", lambda: next(told))[1].batch.size < 6
    resumed, _ = trained(tmp_path / "parts", restore_checkpoint=True)
    assert_same(whole, resumed)
    weights = np.asarray(history.model_trainables.network.readout.weight)
    steps = np.diff(weights, axis=0).reshape(-1, *weights.shape[2:])
    assert len(np.unique(steps.round(6), axis=0)) == len(steps)
    with pytest.raises(ValueError, match="gradient"):
        train(6, trainer=TaskTrainer(adam(1e-2), chkpt_dir=tmp_path / "parts"), restore_checkpoint=True)


@pytest.mark.full
def test_a_carry_that_is_not_finite_freezes_its_member():
    gradient = Counted(PerMember(jnp.array([1.0, 1e30])))
    with pytest.warns(UserWarning, match="member 1 were not finite in batch 1"):
        _, history = train(trainer=TaskTrainer(adam(1e-2), gradient=gradient))
    assert history.frozen_from.tolist() == [-1, 1]


@pytest.mark.full
def test_a_gradient_is_a_hyperparameter_that_selection_changes():
    gradient = Counted(PerMember(jnp.array([1.0, 1.1, 1.2])))
    selection = PopulationBasedTraining(2, Truncation(0.4), hyperparameters=("gradient.factor",))
    _, history = train(
        6, n_members=3, trainer=TaskTrainer(adam(1e-2), gradient=gradient, population_updates=[selection])
    )
    factors = np.asarray(history.updates["selection"]["hyperparameter.gradient.factor"])
    moved = np.asarray(history.updates["selection"]["parent"]) != np.arange(3)
    assert moved.any() and not np.isin(factors[-1], [1.0, 1.1, 1.2])[moved[-1]].any()


class Returns(AbstractGradient):
    """Returns what it is told to."""

    change: object = eqx.field(static=True)

    def __call__(self, run, params, carry, *, key):
        return self.change(params, run(params), carry)


def test_what_is_no_gradient_is_refused_before_anything_is_written(tmp_path, as_users_run):
    with pytest.raises(ValueError, match="`gradient` must be an AbstractGradient such as Backprop"):
        TaskTrainer(adam(1e-2), gradient=BackpropThroughTime)
    plan = planned(n_members=0)
    for change in (
        lambda params, batch, carry: (batch.mean_loss, batch, carry),
        lambda params, batch, carry: (params, batch.mean_loss, carry),
        lambda params, batch, carry: (params, batch, jnp.zeros(2)),
    ):
        step = dataclasses.replace(plan.step, gradient=Returns(change))
        with pytest.raises(ValueError, match="Returns returns must"):
            check_changes(step, plan.new_state, plan.first_trials, [None])
    alone = Returns(lambda params, batch, carry: params)
    with pytest.raises(ValueError, match="must be a tuple .* the gradients, the batch"):
        train(trainer=TaskTrainer(adam(1e-2), chkpt_dir=tmp_path / "run", gradient=alone))
    assert not (tmp_path / "run").exists()


def test_optimizers_that_call_the_loss_are_refused_by_name():
    message = "`optimizer` cannot train this model: .*`gradient`.*ForwardMode"
    with pytest.raises(ValueError, match=message):
        train(trainer=TaskTrainer(optax.lbfgs(), gradient=ForwardMode()))
