"""The experiment with cognitive tasks: small ensembles learn each of them, and untrained ones do none."""

import dataclasses

import jax
import numpy as np
import pytest
from short_form import mostly_in_full

from popsim.experiments import Cognitive
from popsim.experiments.network_experiment import LEARNED, Preset, fresh_trials, scores
from popsim.experiments.registry import DEFAULTS
from popsim.tasks import COGNITIVE_TASKS

N_BATCHES = {
    100: "block-decisions",
    200: "context-integration perceptual-decision delayed-comparison delayed-go-no-go "
    "multisensory-integration economic-choice",
    300: "flip-flop delayed-match-to-sample signal-detection poisson-clicks ready-set-go",
    400: "cue-set-go one-two-three-go path-integration multi-task",
    500: "direction-category",
    600: "delayed-non-match-to-sample delayed-response pulse-decision probabilistic-reasoning",
    800: "delayed-paired-association interval-discrimination",
    1000: "delayed-match-to-category dual-delayed-match-to-sample",
    1500: "sine-generation",  # 12 of 12 members learn it; with 300 and 800, 10
    2500: "angle-reproduction",
}
N_BATCHES = {name: n_batches for n_batches, names in N_BATCHES.items() for name in names.split()}
IN_SHORT = ("perceptual-decision",)
SMALL = Cognitive(n_members=2, batch_size=32, n_units=48, log_step=1000)


def trained_and_untrained(name):
    """The scores of each member after and before a short training, in 1,000 fresh trials."""
    settings = {"n_batches": N_BATCHES[name], **DEFAULTS.get(name, {})}
    experiment = dataclasses.replace(SMALL, task=name, **settings)
    task, untrained = experiment.build_task(), experiment.build_ensemble()
    trained, _ = experiment.build_trainer()(
        task,
        untrained,
        experiment.n_batches,
        experiment.batch_size,
        experiment.where_train,
        ensembled=True,
        log_step=experiment.log_step,
        disable_tqdm=True,
        key=experiment.key("training"),
    )
    key = experiment.key("evaluation")
    trials = fresh_trials(task, 1000, key=key)
    return tuple(
        scores(ensemble, task, trials, LEARNED[name].score, key=key).tolist()
        for ensemble in (trained, untrained)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_in_full(N_BATCHES, IN_SHORT))
def test_every_member_learns_the_task_and_no_untrained_one_does_it(name):
    preset = LEARNED[name]
    trained, untrained = trained_and_untrained(name)
    assert all(map(preset.is_met, trained)), (name, preset, trained)
    assert not any(map(preset.is_met, untrained)), (name, preset, untrained)


def test_there_is_a_criterion_for_each_task_and_nan_does_not_meet_it():
    need_hours = {"yang2019", "driscoll2024", "hierarchical-reasoning"}
    assert LEARNED.keys() == COGNITIVE_TASKS.keys() - need_hours
    assert all(preset.score for preset in LEARNED.values())
    assert Cognitive(task="driscoll2024").preset == Preset("gru")
    for score, good, bad in (("accuracy", 0.9, 0.7), ("output error", 0.7, 0.9)):
        preset = Preset("gru", score, 0.8)
        assert preset.is_met(good) and not preset.is_met(bad) and not preset.is_met(np.nan)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("network", {"network": "transformer"}),
        ("tau", {"network": "tanh", "tau": 0.0}),
        ("n_units", {"n_units": 0}),
        ("learning_rate", {"learning_rate": 0.0}),
        ("hidden_noise", {"hidden_noise": -1.0}),
    ],
)
def test_bad_settings_are_refused_by_name(name, options, as_users_run):
    with pytest.raises(ValueError, match=f"`{name}`"):
        Cognitive(**options)


def test_settings_of_the_network_are_followed():
    slow = Cognitive(network="tanh", tau=0.2, hidden_noise=0.1, n_units=5).build_model(key=jax.random.key(0))
    assert float(slow.network.tau) == pytest.approx(0.2) and slow.network.bias.shape == (5,)
    assert float(slow.network.noise.std) == pytest.approx(0.1) and slow.network.n_outputs == 3
    gated = Cognitive(task="delayed-response", network="gru", n_units=7).build_model(key=jax.random.key(0))
    assert gated.network.cell.hidden_size == 7
    assert (gated.network.n_inputs, gated.network.n_outputs) == (11, 8)
