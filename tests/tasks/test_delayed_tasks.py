"""Delayed comparison, delayed match to sample, delayed response: what is shown when, and what is right."""

import numpy as np
import pytest
from sample_trials import many_trials, one_hot, share_error, validation_trials
from short_form import mostly_in_full

import popsim
from popsim.tasks import DelayedComparison, DelayedMatchToSample, DelayedResponse

TASKS = {
    "comparison": (DelayedComparison, ("f1", "f2")),
    "match": (DelayedMatchToSample, ("sample", "test")),
    "response": (DelayedResponse, ("stimulus",)),
}


@pytest.fixture(params=mostly_in_full(TASKS, ["response"]))
def kind(request):
    return TASKS[request.param]


def test_stimuli_are_there_in_their_epochs_and_never_else(kind, getkey):
    task, epochs = kind
    trials = many_trials(task(dt=0.02), getkey(), 200)
    steps = np.arange(trials.timeline.n_steps)
    bounds = [trials.timeline.epochs[name] for name in epochs]
    expected = np.any([(steps >= b[:, :1]) & (steps < b[:, 1:]) for b in bounds], axis=0)
    np.testing.assert_array_equal(np.any(trials.inputs["stimulus"] != 0, axis=2), expected)


def test_the_delay_is_drawn_and_the_go_cue_comes_when_fixation_ends(kind, getkey):
    task = kind[0](delay=popsim.distributions.Uniform(0.2, 0.6), duration=1.4, dt=0.02)
    trials = many_trials(task, getkey())
    delay = 0.02 * np.diff(trials.timeline.epochs["delay"])[:, 0]
    np.testing.assert_allclose([delay.min(), delay.max()], [0.2, 0.6], atol=0.021)
    np.testing.assert_allclose(delay.mean(), 0.4, atol=5 * 0.4 / (12 * 2000) ** 0.5)
    go = trials.timeline.events["go cue"]
    np.testing.assert_array_equal(trials.inputs["fixation"].sum((1, 2)), go)
    silent = np.arange(trials.timeline.n_steps) < go[:, None]
    assert np.all(trials.targets.values[silent] == 0)
    np.testing.assert_array_equal(trials.targets.values[~silent].sum(-1), 1)
    np.testing.assert_array_equal(popsim.correct_choice(trials.targets), trials.conditions["choice"])


def test_pairs_come_in_both_orders_and_the_faster_one_is_right(getkey):
    trials = many_trials(DelayedComparison(noise=0.0), getkey())
    f1, f2 = trials.conditions["f1"], trials.conditions["f2"]
    np.testing.assert_array_equal(trials.conditions["choice"], f1 < f2)
    pairs, counts = np.unique(np.stack([f1, f2], axis=1), axis=0, return_counts=True)
    assert len(pairs) == 10 and np.all(abs(pairs[:, 0] - pairs[:, 1]) == 8)
    np.testing.assert_allclose(counts / 2000, 0.1, atol=share_error(0.1, 2000))
    for epoch, frequency in (("f1", f1), ("f2", f2)):
        first = trials.timeline.epochs[epoch][:, 0]
        shown = trials.inputs["stimulus"][np.arange(2000), first, 0]
        np.testing.assert_allclose(shown, frequency / 34, rtol=1e-6)
    validation = validation_trials(DelayedComparison()).conditions
    assert len({*zip(validation["f1"].tolist(), validation["f2"].tolist(), strict=True)}) == 10


@pytest.mark.parametrize(("yes_to", "rotation"), [("match", 0), ("non-match", 0), ("match", 2)])
def test_a_test_matches_as_often_as_asked_and_yes_is_said_to_what_was_asked(yes_to, rotation, getkey):
    task = DelayedMatchToSample(
        n_directions=5, rotation=rotation, yes_to=yes_to, match_probability=0.3, noise=0.0
    )
    trials = many_trials(task, getkey())
    sample, test, match = (trials.conditions[name] for name in ("sample", "test", "match"))
    np.testing.assert_array_equal((test - sample) % 5 == rotation, match)
    np.testing.assert_array_equal(trials.conditions["choice"] == 0, match == (yes_to == "match"))
    np.testing.assert_allclose(match.mean(), 0.3, atol=share_error(0.3, 2000))
    np.testing.assert_allclose(np.bincount(sample) / 2000, 0.2, atol=share_error(0.2, 2000))
    steps = np.bincount((test - sample - rotation)[~match] % 5, minlength=5)[1:] / (~match).sum()
    np.testing.assert_allclose(steps, 0.25, atol=share_error(0.25, (~match).sum()))
    for epoch, direction in (("sample", sample), ("test", test)):
        first = trials.timeline.epochs[epoch][:, 0]
        np.testing.assert_array_equal(trials.inputs["stimulus"][np.arange(2000), first].argmax(1), direction)


def test_match_validation_has_each_sample_with_itself_and_with_the_opposite():
    conditions = validation_trials(DelayedMatchToSample(n_directions=6)).conditions
    np.testing.assert_array_equal(conditions["sample"], np.repeat(np.arange(6), 2))
    np.testing.assert_array_equal((conditions["test"] - conditions["sample"]) % 6, [0, 3] * 6)


def test_pro_is_towards_and_anti_away_as_often_as_asked(getkey):
    trials = many_trials(DelayedResponse(anti_probability=0.25, noise=0.0, dt=0.02), getkey())
    rule, shown, choice = (trials.conditions[name] for name in ("rule", "stimulus", "choice"))
    np.testing.assert_array_equal(choice, (shown + 4 * rule) % 8)
    np.testing.assert_allclose(rule.mean(), 0.25, atol=share_error(0.25, 2000))
    np.testing.assert_allclose(np.bincount(shown) / 2000, 1 / 8, atol=share_error(1 / 8, 2000))
    np.testing.assert_array_equal(trials.inputs["rule"], np.repeat(one_hot(rule, 2)[:, None], 60, axis=1))
    np.testing.assert_array_equal(trials.inputs["stimulus"][:, 5].argmax(1), shown)
    validation = validation_trials(DelayedResponse()).conditions
    assert len({*zip(validation["rule"].tolist(), validation["stimulus"].tolist(), strict=True)}) == 16


def test_the_share_of_anti_trials_may_follow_a_schedule(getkey):
    ramp = popsim.schedules.LinearSchedule(0.0, 1.0, last_batch=100)
    task = popsim.tasks.ParameterCurriculum(DelayedResponse(), lambda task: task.anti_probability, ramp)
    for batch, fraction in ((0, 0.0), (50, 0.5), (100, 1.0)):
        rules = many_trials(task, getkey(), batch=batch).conditions["rule"]
        np.testing.assert_allclose(rules.mean(), fraction, atol=share_error(fraction, 2000))
