"""A Q-learner computes what a loop does, and the trainer finds the maximum of its likelihood."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from choice_tables import KEY, played, table_of
from scipy.optimize import minimize
from scipy.special import expit, log_softmax
from wrong_arguments import assert_named_in_one_line, wrong_arguments

import popsim
from popsim import tasks
from popsim.analysis.behaviour import normalized_likelihood
from popsim.networks import QLearner
from popsim.tasks import StoredChoices
from popsim.training import TaskTrainer, adam


def logits_of_loop(actions, rewards, rate, beta, stickiness, forgetting):
    """The logits of all choices, of shape (session, time), by a loop over those before."""
    n_choices = actions.max() + 1
    values, last, found = np.zeros((len(actions), n_choices)), np.zeros((len(actions), n_choices)), []
    for action, reward in zip(actions.T, rewards.T, strict=True):
        found.append(beta * values + stickiness * last)
        last = np.eye(n_choices)[action]
        values = np.where(last == 1, values + rate * (reward[:, None] - values), (1 - forgetting) * values)
    return np.stack(found, axis=1)


@pytest.mark.parametrize("forgetting", [None, 0.15])
def test_a_q_learner_is_a_loop_over_choices(forgetting):
    random = np.random.default_rng(1)
    actions, rewards = random.integers(0, 3, (4, 50)), random.normal(size=(4, 50))
    table = {"session": np.repeat(range(4), 50), "choice": actions.ravel(), "reward": rewards.ravel()}
    task = StoredChoices.from_table(table, n_choices=3, validation=[1, 2, 3])
    model = popsim.NetworkModel(QLearner(0.3, 2.0, -0.4, forgetting, n_choices=3), dt=0.1)
    evaluation = popsim.evaluate(model, task, key=KEY)
    logits = logits_of_loop(actions[1:], rewards[1:], 0.3, 2.0, -0.4, forgetting or 0.0)
    np.testing.assert_allclose(evaluation.states.network.output, logits, atol=1e-6)
    chosen = np.take_along_axis(log_softmax(logits, axis=-1), actions[1:, :, None], axis=-1)[..., 0]
    np.testing.assert_allclose(evaluation.losses.total, -chosen.mean(axis=1), atol=1e-6)
    likelihood = normalized_likelihood(evaluation.losses.total, np.full(3, 50))
    np.testing.assert_allclose(likelihood, np.exp(chosen.mean()), rtol=1e-6)


def test_the_numbers_of_a_q_learner_are_those_that_were_given():
    given = {"rate": [0.1, 0.9], "beta": [0.5, 20.0], "stickiness": [-1.0, 0.3], "forgetting": [0.01, 0.99]}
    learners = eqx.filter_vmap(QLearner)(*map(jnp.array, given.values()))
    for name, values in given.items():
        np.testing.assert_allclose(getattr(learners, name), values, rtol=1e-5)
    assert all(jax.tree.leaves(popsim.is_parameter(learners))) and not QLearner(0.1, 1.0).forgetting
    assert len(jax.tree.leaves(QLearner(0.1, 1.0))) == 3


def most_likely(actions, rewards):
    """Rate, beta and stickiness at the maximum of the likelihood, and the nats per choice there."""

    def cost(free):
        logits = logits_of_loop(actions, rewards, expit(free[0]), np.exp(free[1]), free[2], 0.0)
        return -np.take_along_axis(log_softmax(logits, axis=-1), actions[..., None], axis=-1).mean()

    optimum = minimize(cost, [0.0, 0.7, 0.0], method="BFGS", options={"gtol": 1e-7})
    return [expit(optimum.x[0]), np.exp(optimum.x[1]), optimum.x[2]], cost, optimum.fun


BY_ADAM = {"rate": 0.0021, "beta": 0.023, "stickiness": 0.0083, "nats": 9e-6}
BY_LBFGS = {"rate": 1e-4, "beta": 1e-3, "stickiness": 1e-3, "nats": 1e-6}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_subjects", "n_choices", "n_batches", "order", "limits"),
    [
        (2, 50, 20, "all", BY_LBFGS),
        pytest.param(12, 200, 400, "drawn", BY_ADAM, marks=pytest.mark.full),
    ],
)
def test_the_trainer_finds_the_maximum_of_the_likelihood_of_each_subject(
    n_subjects, n_choices, n_batches, order, limits
):
    random = np.random.default_rng(0)
    true = [random.uniform(*span, n_subjects) for span in ((0.15, 0.75), (1.5, 6.0), (-0.5, 0.8))]
    models = [popsim.NetworkModel(QLearner(*numbers), dt=0.1) for numbers in zip(*true, strict=True)]
    agents = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)
    did = played(agents, tasks.ReversalLearning(n_choices=n_choices, n_validation_trials=12))
    task, members = StoredChoices.from_table(table_of(did), subject="subject", order=order).for_subjects()
    start = popsim.build_members(
        lambda key: popsim.NetworkModel(QLearner(0.4, 2.0), dt=0.1), members, settings=[], key=KEY
    )
    adam_to_zero = adam(optax.cosine_decay_schedule(0.05, n_batches))
    fitted, _ = TaskTrainer(optax.lbfgs() if order == "all" else adam_to_zero)(
        task,
        start,
        n_batches,
        task.train.values.shape[1] if order == "all" else 128,
        lambda model: model.network,
        ensembled=True,
        members=members,
        disable_tqdm=True,
        log_step=n_batches,
        key=KEY,
    )
    found = np.array([getattr(fitted.network, name) for name in ("rate", "beta", "stickiness")], float)
    away = np.zeros(4)
    for index in range(n_subjects):
        own = np.asarray(task.train.values[index]) - 12 * index
        actions, rewards = np.asarray(did.action)[index, own], np.asarray(did.reward, float)[index, own]
        best, cost, least = most_likely(actions, rewards)
        rate, beta, stickiness = found[:, index]
        above = cost([np.log(rate / (1 - rate)), np.log(beta), stickiness]) - least
        away = np.maximum(away, [*np.abs(found[:, index] - best), above])
    assert np.all(away <= [*limits.values()]), dict(zip(limits, away, strict=True))


@wrong_arguments(
    numbers=[
        ("rate", lambda: QLearner(0.0, 1.0)),
        ("rate", lambda: QLearner(1.2, 1.0)),
        ("beta", lambda: QLearner(0.5, -1.0)),
        ("forgetting", lambda: QLearner(0.5, 1.0, 0.0, 1.0)),
        ("n_choices", lambda: QLearner(0.5, 1.0, n_choices=0)),
    ]
)
@pytest.mark.usefixtures("as_users_run")
def test_numbers_without_a_logarithm_are_refused(argument, call):
    assert_named_in_one_line(argument, call)
