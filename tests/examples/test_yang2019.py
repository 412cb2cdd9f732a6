"""The parts of the figure of Yang et al. 2019: groups of units, lesions, rule inputs, and gates."""

import jax
import numpy as np
import pytest
from small_training import assert_same

import popsim
from popsim.analysis.neural_activity import cluster_units
from popsim.networks import LeakyRNN
from popsim.store import save_model
from popsim.tasks import yang2019

figure = pytest.importorskip("yang2019", reason="examples/ is not beside the tests")
networks = pytest.importorskip("yang2019_networks")
exit_code = pytest.importorskip("gates").exit_code


RULES = yang2019().names
FEW = networks.CONTEXTS


@pytest.mark.full
def test_weights_of_another_recipe_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(networks, "FOLDER", tmp_path)
    monkeypatch.setattr(networks, "N_UNITS", 4)
    assert not networks.has_weights(0)
    for kind in networks.NONLINEARITIES:
        untrained = networks.build_ensemble(kind, 0)
        save_model(networks.weights_file(kind, 0), untrained, details=networks.recipe(kind, 0))
    assert networks.has_weights(0)
    assert_same(networks.load_trained("tanh", 0), untrained)
    monkeypatch.setattr(networks, "TAU", 0.2)
    with pytest.raises(ValueError, match="was trained by another recipe"):
        networks.load_trained("tanh", 0)


@pytest.mark.full
def test_what_was_learned_by_context_goes_into_the_network_for_all_rules(monkeypatch):
    monkeypatch.setattr(networks, "N_UNITS", 3)
    few, ensemble = (networks.build_ensemble("tanh", seed, rules) for seed, rules in ((1, FEW), (2, None)))
    assert few.network.input_weights.shape == (1, 3, 67)
    joined = networks.with_rules(few, ensemble).network
    weights, untrained = joined.input_weights, ensemble.network.input_weights
    own = [RULES.index(rule) for rule in FEW]
    np.testing.assert_array_equal(weights[..., :65], few.network.input_weights[..., :65])
    for column, rule in enumerate(own):
        np.testing.assert_array_equal(weights[..., 65 + rule], few.network.input_weights[..., 65 + column])
    others = [65 + i for i in range(20) if i not in own]
    np.testing.assert_array_equal(weights[..., others], untrained[..., others])
    assert_same(joined.readout, few.network.readout)
    np.testing.assert_array_equal(joined.recurrent_weights, few.network.recurrent_weights)


def test_harm_where_units_vary_is_specific():
    rng = np.random.default_rng(0)
    variance = rng.uniform(size=(6, 20))
    common = rng.uniform(size=(6, 1)) + rng.uniform(size=20)
    np.testing.assert_allclose(figure.specificity(variance, 0.3 * variance + common), 1.0)
    np.testing.assert_allclose(figure.specificity(variance, common - variance), -1.0)
    assert abs(figure.specificity(rng.uniform(size=(40, 50)), rng.uniform(size=(40, 50)))) < 0.1


@pytest.fixture(scope="module")
def grouped():
    """Clusters of twelve units, of which two are silent."""
    rng = np.random.default_rng(0)
    variance = np.repeat(np.eye(3, 20), 4, axis=0) + 0.01 * rng.uniform(size=(12, 20))
    variance[[3, 7]] = 0
    return cluster_units(variance, max_clusters=4, key=jax.random.key(0))


def test_groups_have_the_units_of_clusters_or_as_many(grouped):
    groups = figure.units_by_cluster(grouped, 12)
    np.testing.assert_array_equal(np.flatnonzero(groups[0]), [0, 1, 2])
    np.testing.assert_array_equal(groups.sum(axis=1), [3, 3, 4])
    np.testing.assert_allclose(figure.mean_variance(grouped)[1, :3], [0, 1, 0], atol=0.02)
    drawn = figure.random_groups(groups, 3)
    np.testing.assert_array_equal(drawn.sum(axis=1), groups.sum(axis=1))
    np.testing.assert_array_equal(drawn.any(axis=0), groups.any(axis=0))
    assert not np.array_equal(drawn, groups)


@pytest.mark.full
def test_lesions_and_states_are_those_of_the_units_and_times_meant():
    small = popsim.n_network_inputs(yang2019().validation_trials())

    def build(key):
        network = LeakyRNN(small, 5, 33, tau=0.2, dt=0.02, nonlinearity=jax.nn.softplus, key=key)
        return popsim.NetworkModel(network, dt=0.02)

    ensemble = popsim.make_ensemble(build, 1, key=jax.random.key(1))
    lesions = np.array([[False] * 5, [True] * 5, [False, False, True, False, False]])
    copies = figure.with_lesions(ensemble, lesions)
    intact, silent, one = (popsim.member(copies, i).network for i in range(3))
    np.testing.assert_array_equal(intact.recurrent_weights, ensemble.network.recurrent_weights[0])
    assert not np.any(silent.readout.weight) and not np.any(silent.recurrent_weights)
    assert not np.any(one.recurrent_weights[:, 2]) and np.all(one.recurrent_weights[2, :2])

    # The first stimulus of "go" is shown from 0.5 to 1.5 s in the middle of its ranges, "rt-go" has none.
    rates = figure.rates_by_rule(ensemble)
    assert rates["go"].after_fixation.shape == (1, 32, 75, 5)
    np.testing.assert_allclose(rates["go"].at_stimulus_end, rates["go"].after_fixation[0, :, 49].mean(0))
    assert rates["rt-go"].after_fixation.shape == (1, 32, 25, 5)


def test_other_rule_inputs_are_on_until_the_end_of_a_trial():
    task = yang2019(("go", "anti", "delay-go"), dt=0.1, noise=0.0)
    trials = figure.trials_of_rule(task, "anti", 4, jax.random.key(0))
    changed = figure.with_rule_inputs(task, trials, "anti", {"go": 1.0, "delay-go": -0.5})
    for number, end in enumerate(np.asarray(trials.timeline.epochs["response"][:, 1])):
        np.testing.assert_allclose(changed.inputs["rule"][number, :end], [[1.0, 0.0, -0.5]] * end, atol=1e-6)
        assert not np.any(changed.inputs["rule"][number, end:])


def test_gates_pass_for_clusters_and_fail_without(grouped):
    flat = grouped._replace(silhouettes=grouped.silhouettes / 2, best=0)
    others = {"tanh": flat, "untrained": flat}
    assert all(row.passed for row in figure.cluster_rows({"softplus": grouped, **others}, [flat, flat]))
    same = dict.fromkeys(("softplus", "tanh", "untrained"), grouped)
    assert not any(row.passed for row in figure.cluster_rows(same, [flat, grouped]))


def test_gates_of_performance_are_of_the_mean_and_of_the_rules():
    def passed(performance):
        analysis = figure.NetworkAnalysis(np.array(performance), np.ones((2, 20)), (), {})
        return [row.passed for row in figure.performance_rows("network", analysis)]

    assert passed([0.96] * 20) == [True, True]
    assert passed([0.94] * 20) == [False, True]
    assert passed([1.0] * 17 + [0.8] * 3) == [True, False]


def test_gates_pass_for_parallel_ways_and_whole_sums():
    states = {name: np.zeros(3) for name in RULES}
    states |= {"delay-go": np.array([1.0, 0.2, 0]), "delay-anti": np.array([1.0, -0.2, 0])}
    states |= {"context-dm-2": np.array([0, 0, 1.0]), "context-delay-dm-2": np.array([0, 0.2, 2.0])}
    noise = {name: np.random.default_rng(i).normal(size=3000) for i, name in enumerate(RULES)}
    assert exit_code(figure.state_rows(states, noise)) == 0
    assert exit_code(figure.state_rows(noise, states)) == 1
    sums = {"delay-anti": {"delay-anti": 1.0, "whole": 0.9, "part": 0.5}}
    assert exit_code(figure.sum_rows(sums)) == 0
    assert exit_code(figure.sum_rows({"delay-anti": sums["delay-anti"] | {"part": 0.85}})) == 1
