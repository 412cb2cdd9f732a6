"""Population-based training: who replaces whom, and what is inherited."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_training import RunningSum, activity, squared_error, train

import popsim
from popsim.analysis.figures import draw_discovered_schedules, draw_genealogy
from popsim.training import (
    BinaryTournament,
    Perturb,
    PopulationBasedTraining,
    Resample,
    TaskTrainer,
    Truncation,
    adam,
    ancestors,
    cosine_decay,
)
from popsim.training.population_updates.selection import select_parents, values_after_selection


def weighted(loss_weight):
    loss = 1.0 * popsim.FunctionTerm("squared_error", squared_error)
    return RunningSum(loss + loss_weight * popsim.FunctionTerm("activity", activity))


COSTS = popsim.PerMember([1e-3, 1e-2, 1e-1, 1.0, 3.0, 10.0])
RATES = popsim.PerMember([1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1])


def error(states, trials):
    return jnp.mean((states.network.output - trials.targets) ** 2, axis=(1, 2, 3))


def selecting(n_batches=12, *, rule=None, task=None, rates=RATES):
    rule = rule or PopulationBasedTraining(3, Truncation(0.34), score=error)
    trainer = TaskTrainer(adam(cosine_decay(rates, 40), clip_norm=1.0), population_updates=[rule])
    task = weighted(COSTS) if task is None else task
    return train(n_batches, n_members=6, task=task, trainer=trainer, log_step=4)


@pytest.mark.full
@pytest.mark.slow
def test_the_genealogy_says_who_took_what_from_whom():
    _, history = selecting()
    record = history.updates["selection"]
    assert record["batch"].tolist() == [2, 5, 8] and record["parent"].shape == (3, 6)
    rates, costs = (record[f"hyperparameter.{n}"] for n in ("learning_rate", "task.loss.weights.activity"))
    before = {"rate": np.asarray(RATES.values), "cost": np.asarray(COSTS.values)}
    for row, parents in enumerate(record["parent"]):
        order = np.argsort(record["selection_score"][row])
        replaced = np.flatnonzero(parents != np.arange(6))
        assert set(replaced) == set(order[4:]) and set(parents[replaced]) <= set(order[:2])
        for name, values in (("rate", rates[row]), ("cost", costs[row])):
            kept = np.setdiff1d(np.arange(6), replaced)
            np.testing.assert_array_equal(values[kept], before[name][kept])
            factors = values[replaced] / before[name][parents[replaced]]
            assert all(np.isclose(factor, [0.8, 1.2], rtol=1e-5).any() for factor in factors)
            before[name] = values
    decay = np.cos(np.pi * np.arange(12) / 40) / 2 + 0.5
    np.testing.assert_allclose(history.learning_rate[9:12], decay[9:12, None] * rates[-1], rtol=1e-4)


@pytest.mark.slow
def test_members_are_inherited_whole_and_frozen_ones_come_back():
    """A rate that overflows freezes a member until it is replaced; what is not replaced is as alone."""
    rates = popsim.PerMember([1e-3, 2e-3, 3e-3, 4e-3, 5e-3, 3e38])
    rule = PopulationBasedTraining(4, BinaryTournament(), Resample(popsim.distributions.Constant(1e-3)))
    with pytest.warns(UserWarning, match="member 5 were not finite"):
        trained, history = selecting(6, rule=rule, task=RunningSum(), rates=rates)
    parents = history.updates["selection"]["parent"][0]
    assert parents[5] != 5 and history.frozen_from[5] == -1 and np.isfinite(history.loss.total[5, 5])
    drawn = history.updates["selection"]["hyperparameter.learning_rate"][0][parents != np.arange(6)]
    assert set(drawn) == {np.float32(1e-3)}
    alone = TaskTrainer(adam(cosine_decay(popsim.PerMember([1e-3] * 6), 40), clip_norm=1.0))
    _, own = train(6, n_members=6, trainer=alone)
    assert parents[0] == 0 and not own.updates
    np.testing.assert_array_equal(history.loss.total[:, 0], own.loss.total[:, 0])


@pytest.mark.parametrize("rule", [Truncation(0.34), Truncation(0.5), BinaryTournament()])
def test_without_a_finite_score_all_keep_their_own(rule):
    selection = PopulationBasedTraining(2, rule)
    for value in (jnp.nan, jnp.inf, -jnp.inf):
        for seed in range(5):
            parents = select_parents(selection, jnp.full(6, value), key=jax.random.key(seed))
            assert parents.tolist() == [*range(6)]
    one_is_finite = jnp.full(6, jnp.nan).at[2].set(1.0)
    taken = {int(select_parents(selection, one_is_finite, key=jax.random.key(seed))[5]) for seed in range(20)}
    assert 2 in taken and taken <= {2, 5}


def nothing(states, trials):
    return jnp.full(states.network.output.shape[0], jnp.nan)


@pytest.mark.full
@pytest.mark.slow
def test_a_score_that_is_nan_for_all_is_named_and_selects_nobody():
    rates = popsim.PerMember([1e-3, 1e-2, 1e-1])
    trainer = TaskTrainer(adam(rates), population_updates=[PopulationBasedTraining(2, score=nothing)])
    with pytest.warns(UserWarning, match="`score` of the selection must be finite for some member"):
        record = train(6, n_members=3, trainer=trainer)[1].updates["selection"]
    assert np.all(record["parent"] == np.arange(3))
    np.testing.assert_allclose(record["hyperparameter.learning_rate"], [rates.values] * 2)


def test_members_that_are_frozen_replace_nobody():
    scores = jnp.array([3.0, jnp.inf, jnp.inf, 1.0, jnp.inf, jnp.inf])
    for seed in range(5):
        parents = Truncation(0.5).parents(scores, key=jax.random.key(seed))
        assert parents[0] == 0 and parents[3] == 3 and set(parents.tolist()) <= {0, 1, 2, 3, 4, 5}
        assert set(np.flatnonzero(parents != jnp.arange(6))) <= {1, 2, 4, 5}
        assert set(parents[parents != jnp.arange(6)].tolist()) <= {0, 3}


@pytest.mark.parametrize("rule", [Truncation(0.4), BinaryTournament()])
def test_equal_scores_replace_nobody_and_their_order_is_drawn(rule):
    """Whoever is best or worst with others is so in some draws, whatever its place."""
    members, taken = jnp.arange(5), [set(), set()]
    scores = jnp.array([[jnp.inf] * 5, [1.0] * 5, [0.0, 1.0, 0.0, 1.0, 0.0]])
    keys = jax.random.split(jax.random.key(0), 40)
    of_all = jax.vmap(lambda own, key: rule.parents(own, key=key), (0, None))
    for of_infinite, of_equal, parents in jax.vmap(of_all, (None, 0))(scores, keys):
        np.testing.assert_array_equal([of_infinite, of_equal], [members, members])
        replaced = parents != members
        for places, of_draw in zip(taken, (members[replaced], parents[replaced]), strict=True):
            places.update(of_draw.tolist())
    assert taken == [{1, 3}, {0, 2, 4}]


@pytest.mark.slow
def test_rates_that_are_not_selected_stay_with_their_member():
    rule = PopulationBasedTraining(3, Truncation(0.34), hyperparameters=("task.loss.weights.activity",))
    _, history = selecting(6, rule=rule)
    assert np.any(history.updates["selection"]["parent"] != np.arange(6))
    decay = np.cos(np.pi * np.arange(6) / 40) / 2 + 0.5
    np.testing.assert_allclose(history.learning_rate, decay[:, None] * np.asarray(RATES.values), rtol=1e-4)


def test_a_replaced_member_explores_from_the_value_of_its_parent():
    own, parents = jnp.array([1.0, 10.0, 100.0, 1000.0]), jnp.array([0, 0, 2, 2])
    rule, key = PopulationBasedTraining(3, explore=Perturb(0.5, 2.0)), jax.random.key(0)
    values = values_after_selection(rule, {"a": own[parents]}, {"a": own}, jnp.arange(4), parents, key=key)
    assert values["a"][0] == 1.0 and values["a"][2] == 100.0
    assert float(values["a"][1]) in (0.5, 2.0) and float(values["a"][3]) in (50.0, 200.0)


EVERY_2 = PopulationBasedTraining(2)
REFUSED = [
    (lambda: PopulationBasedTraining(0), "`every` must be a positive"),
    (lambda: PopulationBasedTraining(2, exploit="best"), "`exploit` must be a rule"),
    (lambda: PopulationBasedTraining(2, explore=0.8), "`explore` must be such as Perturb"),
    (lambda: Truncation(0.6), "`fraction` must be above 0 and at most 0.5"),
    (lambda: Perturb(0.0, 2.0), "`low` must be finite and above"),
    (lambda: selecting(rule=PopulationBasedTraining(2, hyperparameters=("learnig_rate",))), "learning_rate"),
    (lambda: selecting(rule=PopulationBasedTraining(2, explore={"b1": Perturb()})), "got none for"),
    (lambda: selecting(rule=PopulationBasedTraining(2, score=lambda *_: jnp.zeros(2))), "for each of the 6"),
    (lambda: selecting(task=RunningSum(), rates=1e-3), "must have hyperparameters to change"),
    (lambda: train(4, n_members=0, trainer=TaskTrainer(adam(1e-3), population_updates=[EVERY_2])), "two mem"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_what_does_not_fit_is_refused_by_name(make, said, as_users_run):
    with pytest.raises(ValueError, match=said):
        make()


def test_figures_show_the_line_of_the_best(ax):
    """The best, 2, was 1 before the last selection, 2 before the second, and 0 before the first."""
    parents = np.array([[0, 1, 0, 3], [0, 2, 2, 3], [3, 1, 1, 3]])
    assert ancestors(parents).tolist() == [[3, 0, 0, 3], [3, 2, 2, 3], [3, 1, 1, 3]]
    batch, start, rates = np.array([2, 5, 8]), 1.0 + np.arange(4.0), 10.0 + np.arange(12.0).reshape(3, 4)
    draw_genealogy(ax, batch, parents, best=2)
    (best,) = (line for line in ax.lines if line.get_linewidth() == 2.0)
    assert best.get_ydata()[:-1].tolist() == [0, 2, 1, 2]
    ax.clear()
    draw_discovered_schedules(ax, batch, rates, parents, label="rate", start=start, best=2)
    own = ax.lines[-1].get_ydata()
    assert own[0] == 1.0 and own[-1] == rates[-1, 2] and len(own) == 5
