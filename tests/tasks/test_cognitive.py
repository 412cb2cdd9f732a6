"""The experiment with cognitive tasks."""

import numpy as np
import pytest

from popsim.experiments import Cognitive
from popsim.experiments.network_experiment import LEARNED, Criterion
from popsim.tasks import COGNITIVE_TASKS

SMALL = Cognitive(
    task="context-integration", network="tanh", n_members=2, n_batches=4, batch_size=4, n_units=8, log_step=2
)


def test_there_is_a_criterion_for_each_task_and_nan_does_not_meet_it():
    need_hours = {"yang2019", "driscoll2024", "hierarchical-reasoning"}
    assert LEARNED.keys() == COGNITIVE_TASKS.keys() - need_hours
    suite = Cognitive(task="driscoll2024")
    assert suite.preset == ("gru", None)
    for score, good, bad in (("accuracy", 0.9, 0.7), ("output error", 0.7, 0.9)):
        criterion = Criterion(score, 0.8)
        assert criterion.is_met(good) and not criterion.is_met(bad) and not criterion.is_met(np.nan)


@pytest.mark.parametrize(
    "options, name",
    [
        ({"task": "juggling"}, "task"),
        ({"network": "transformer"}, "network"),
        ({"tau": 0.1}, "tau"),
        ({"network": "tanh", "tau": 0.0}, "tau"),
        ({"n_units": 0}, "n_units"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"hidden_noise": -1.0}, "hidden_noise"),
    ],
)
def test_bad_settings_are_refused_by_name(options, name, as_users_run):
    with pytest.raises(ValueError, match=f"`{name}`"):
        Cognitive(**options)


def test_settings_of_the_network_are_followed():
    import jax

    slow = Cognitive(network="tanh", tau=0.2, hidden_noise=0.1, n_units=5).build_model(key=jax.random.key(0))
    assert float(slow.network.tau) == pytest.approx(0.2) and slow.network.bias.shape == (5,)
    assert float(slow.network.noise.std) == pytest.approx(0.1) and slow.network.n_outputs == 3
    gated = Cognitive(task="delayed-response", network="gru", n_units=7).build_model(key=jax.random.key(0))
    assert gated.network.cell.hidden_size == 7 and (gated.network.n_inputs, gated.network.n_outputs) == (
        11,
        8,
    )
