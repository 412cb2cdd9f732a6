"""Small ensembles learn every cognitive task, and untrained ones cannot do it."""

import dataclasses

import pytest
from short_form import mostly_in_full

from popsim.experiments import Cognitive
from popsim.experiments.network_experiment import CRITERIA, fresh_trials, scores

N_BATCHES = {
    "flip-flop": 300,
    "context-integration": 200,
    "perceptual-decision": 200,
    "delayed-comparison": 200,
    "delayed-match-to-sample": 300,
    "delayed-non-match-to-sample": 600,
    "delayed-response": 600,
    "delayed-match-to-category": 1000,
    "delayed-paired-association": 800,
    "dual-delayed-match-to-sample": 1000,
    "delayed-go-no-go": 200,
    "signal-detection": 300,
    "multisensory-integration": 200,
    "pulse-decision": 600,
    "poisson-clicks": 300,
    "economic-choice": 200,
    "ready-set-go": 300,
    "sine-generation": 1500,  # 12 of 12 members learn it; with 300 and 800, 10
    "interval-discrimination": 800,
    "cue-set-go": 400,
    "one-two-three-go": 400,
    "probabilistic-reasoning": 600,
    "angle-reproduction": 2500,
    "direction-category": 500,
    "block-decisions": 100,
    "path-integration": 400,
    "multi-task": 400,
}
IN_SHORT = ("perceptual-decision",)
SMALL = Cognitive(n_members=2, batch_size=32, n_units=48, log_step=1000)


def trained_and_untrained(name):
    """The scores of each member after and before a short training, in 1,000 fresh trials."""
    experiment = dataclasses.replace(SMALL, task=name, n_batches=N_BATCHES[name])
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
        scores(ensemble, task, trials, CRITERIA[name].score, key=key).tolist()
        for ensemble in (trained, untrained)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_in_full(N_BATCHES, IN_SHORT))
def test_every_member_learns_the_task_and_no_untrained_one_does_it(name):
    criterion = CRITERIA[name]
    trained, untrained = trained_and_untrained(name)
    assert all(map(criterion.is_met, trained)), (name, criterion, trained)
    assert not any(map(criterion.is_met, untrained)), (name, criterion, untrained)
