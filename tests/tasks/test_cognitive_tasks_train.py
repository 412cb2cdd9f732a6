"""Small ensembles learn every cognitive task, and untrained ones cannot do it."""

import dataclasses

import pytest
from short_form import mostly_in_full

from popsim.experiments import Cognitive
from popsim.experiments.network_experiment import LEARNED, fresh_trials, scores
from popsim.experiments.registry import DEFAULTS

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
        scores(ensemble, task, trials, LEARNED[name][1].score, key=key).tolist()
        for ensemble in (trained, untrained)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_in_full(N_BATCHES, IN_SHORT))
def test_every_member_learns_the_task_and_no_untrained_one_does_it(name):
    criterion = LEARNED[name][1]
    trained, untrained = trained_and_untrained(name)
    assert all(map(criterion.is_met, trained)), (name, criterion, trained)
    assert not any(map(criterion.is_met, untrained)), (name, criterion, untrained)
