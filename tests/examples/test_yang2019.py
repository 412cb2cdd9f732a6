"""The parts of the figure of Yang et al. 2019: groups of units, lesions and rule inputs."""

import jax
import numpy as np
import pytest

import yang2019 as figure
from popsim.analysis.neural_activity import cluster_units
from popsim.tasks import yang2019


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


def test_other_rule_inputs_are_on_until_the_end_of_a_trial():
    task = yang2019(("go", "anti", "delay-go"), dt=0.1, noise=0.0)
    trials = figure.trials_of_rule(task, "anti", 4, jax.random.key(0))
    changed = figure.with_rule_inputs(task, trials, "anti", {"go": 1.0, "delay-go": -0.5})
    for number, end in enumerate(np.asarray(trials.timeline.epochs["response"][:, 1])):
        np.testing.assert_allclose(changed.inputs["rule"][number, :end], [[1.0, 0.0, -0.5]] * end, atol=1e-6)
        assert not np.any(changed.inputs["rule"][number, end:])
