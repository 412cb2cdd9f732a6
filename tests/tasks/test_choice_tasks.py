"""Matching, detection, several senses, pulses and offers: what is shown, what is right, and who knows best.

Ideal observers see the inputs of the task's own trials, and are right as often as they expect;
`test_small_optima` counts out what they should expect.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import many_trials, one_hot, share_error, validation_trials

import popsim
from popsim import tasks
from popsim.distributions import Choice, Uniform

N = 4000
CATCH = tasks.GoResponse(catch_probability=0.1)
TASKS = {
    "go": tasks.DelayedGoNoGo(noise=0.5, go_probability=0.3, response=CATCH),
    "signal": tasks.SignalDetection(response=CATCH),
    "category": tasks.DelayedMatchToCategory(noise=0.2),
    "association": tasks.DelayedPairedAssociation(noise=0.6),
    "dual": tasks.DualDelayedMatchToSample(noise=0.4),
    "senses": tasks.MultisensoryIntegration(noise=(0.3, 0.1)),
    "pulses": tasks.PulseDecision(),
    "clicks": tasks.PoissonClicks(),
    "offers": tasks.EconomicChoice(noise=0.3),
    "comparison": tasks.DelayedComparison(response=CATCH),
    "match": tasks.DelayedMatchToSample(response=CATCH),
    "response": tasks.DelayedResponse(response=CATCH),
}


@functools.cache
def trials_of(name):
    return many_trials(TASKS[name], jax.random.key(0), N)


def observed(task, trials, condition="choice"):
    """How probable each choice, or value of a condition, is to the ideal observer of trials."""
    found = tasks.choice_probabilities(task, jax.tree.map(jnp.asarray, trials), condition)
    assert np.allclose(np.sum(found, axis=1), 1, atol=1e-4)
    return np.asarray(found, float)


def is_near(rights, expected):
    """The mean is the expected one, of each trial or of all, within five standard errors."""
    expected, n = float(np.mean(expected)), len(rights)
    np.testing.assert_allclose(np.mean(rights), expected, atol=share_error(expected, n))


def in_epoch(trials, name):
    steps, bounds = np.arange(trials.timeline.n_steps), trials.timeline.epochs[name]
    return (steps >= bounds[:, :1]) & (steps < bounds[:, 1:])


def mean_stimulus(trials, epoch, where):
    """The mean of the stimulus over an epoch and the trials in which something holds."""
    shown = in_epoch(trials, epoch) & where[:, None]
    return trials.inputs["stimulus"][shown].mean(0)


EPOCHS = {"category": ("sample", "test"), "association": ("first", "second"), "offers": ("offer",)}
EPOCHS |= {"dual": ("sample", "test 1", "test 2"), "comparison": ("f1", "f2"), "match": ("sample", "test")}


@pytest.mark.parametrize("name", TASKS)
def test_stimuli_are_there_in_their_epochs_and_targets_after_the_go_cue(name):
    trials = trials_of(name)
    epochs = EPOCHS.get(name, ("stimulus",))
    expected = np.any([in_epoch(trials, epoch) for epoch in epochs], axis=0)
    is_shown = np.any(trials.inputs["stimulus"] != 0, axis=2)
    assert np.all(expected[is_shown]) and (name in ("pulses", "clicks") or np.all(is_shown == expected))
    if name == "dual":
        return
    goes = np.arange(trials.timeline.n_steps) >= trials.timeline.events["go cue"][:, None]
    np.testing.assert_array_equal(trials.inputs["fixation"][..., 0], ~goes)
    right = one_hot(trials.conditions["choice"], trials.targets.values.shape[-1])[:, None]
    np.testing.assert_array_equal(trials.targets.values, np.where(goes[..., None], right, 0))
    np.testing.assert_array_equal(trials.conditions["catch"], ~goes.any(1))
    is_near(trials.conditions["catch"], float(TASKS[name].response.catch_probability))
    asked = np.where(trials.conditions["catch"], -1, trials.conditions["choice"])
    np.testing.assert_array_equal(popsim.correct_choice(jax.tree.map(jnp.asarray, trials.targets)), asked)


RIGHT = {  # the choice, how often something holds, and the mean stimulus of an epoch where something holds
    "go": (lambda c: ~c["go"], {"go": 0.3}, [("stimulus", lambda c: c["go"], [0, 1])]),
    "signal": (lambda c: ~c["signal"], {"signal": 0.5}, []),
    "category": (
        lambda c: c["sample"] // 6 != c["test"] // 6,
        {"match": 0.5},
        [
            (epoch, lambda c, epoch=epoch, i=i: c[epoch] == i, [np.cos(angle), np.sin(angle)])
            for epoch in ("sample", "test")
            for i, angle in ((0, np.radians(15)), (7, np.radians(225)))
        ],
    ),
    "association": (
        lambda c: c["second"] - c["first"] != 2,
        {"go": 0.5},
        [
            ("first", lambda c: c["first"] == 1, [0, 1, 0, 0]),
            ("second", lambda c: c["second"] == 2, [0, 0, 1, 0]),
        ],
    ),
    "senses": (
        lambda c: c["rate"] > 12.5,
        {},
        [("stimulus", lambda c: (c["rate"] == 16) & (c["modality"] == 2), [0.28, 0.28])],
    ),
    "offers": (
        lambda c: (2.2 * c["quantity A"] > c["quantity B"]) != c["A first"],
        {"chooses A": 5 / 9},
        [("offer", lambda c: (c["quantity B"] == 3) & ~c["A first"], [0, 1, 1, 0, 3 / 6, 1 / 6])],
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_choices_follow_from_what_is_shown_as_often_as_asked(name):
    choice, shares, means = RIGHT[name]
    trials = trials_of(name)
    np.testing.assert_array_equal(trials.conditions["choice"], choice(trials.conditions))
    for condition, share in shares.items():
        is_near(trials.conditions[condition], share)
    for epoch, where, expected in means:
        shown = mean_stimulus(trials, epoch, where(trials.conditions))
        np.testing.assert_allclose(shown, expected, atol=0.12)


HARD = {
    "hard response": tasks.DelayedResponse(noise=0.5),
    "hard match": tasks.DelayedMatchToSample(n_directions=4, noise=0.3, match_probability=0.4),
    "hard comparison": tasks.DelayedComparison(noise=0.05),
    "context": tasks.ContextIntegration(),
    "rare signal": tasks.SignalDetection(n_onsets=1, signal_probability=0.3, noise=0.1),
}
OBSERVED = [(name, "choice") for name in [*RIGHT, *HARD]] + [("dual", "match 1"), ("dual", "match 2")]


@pytest.mark.parametrize(("name", "condition"), OBSERVED)
def test_the_observer_is_right_as_often_as_it_expects(name, condition):
    task = (TASKS | HARD)[name]
    trials = trials_of(name) if name in TASKS else many_trials(task, jax.random.key(0), N)
    found = observed(task, trials, condition)
    is_right = found.argmax(1) == trials.conditions[condition]
    assert 0.3 < is_right.mean() < 0.99
    is_near(is_right, found.max(axis=1))


def test_a_signal_comes_at_its_onset():
    trials = trials_of("signal")
    is_there, onset = trials.conditions["signal"], trials.conditions["onset"]
    np.testing.assert_array_equal(is_there, onset >= 0)
    sums = trials.inputs["stimulus"][:, 10:30, 0].reshape(N, 10, 2).mean(2)
    np.testing.assert_allclose(sums[is_there, onset[is_there]].mean(), 0.5, atol=0.02)
    np.testing.assert_allclose(sums[~is_there].mean(), 0, atol=0.01)


def test_categories_are_halves_of_the_circle():
    conditions = trials_of("category").conditions
    for item in ("sample", "test"):
        np.testing.assert_array_equal(conditions[f"{item} category"], conditions[item] // 6)
        np.testing.assert_allclose(np.bincount(conditions[item]) / N, 1 / 12, atol=share_error(1 / 12, N))
    assert len(validation_trials(tasks.DelayedMatchToCategory(n_directions=4)).conditions["match"]) == 16


def test_the_cued_sample_is_tested():
    trials = trials_of("dual")
    cued = trials.conditions["cued first"]
    for turn, item in enumerate((cued, 1 - cued)):
        test, match = f"test {turn + 1}", trials.conditions[f"match {turn + 1}"]
        cue = trials.inputs["cue"][in_epoch(trials, f"cue {turn + 1}")].reshape(N, 10, 2)
        np.testing.assert_array_equal(cue, np.repeat(one_hot(item, 2)[:, None], 10, axis=1))
        sample = np.where(item == 0, trials.conditions["sample 1"], trials.conditions["sample 2"])
        shown = 2 * item + np.where(match, sample, 1 - sample)
        np.testing.assert_allclose(mean_stimulus(trials, test, shown == 3), [0, 0, 0, 1], atol=0.1)
        targets = tasks.targets_in_epoch(jax.tree.map(jnp.asarray, trials), test)
        np.testing.assert_array_equal(popsim.correct_choice(targets), ~match)
        np.testing.assert_array_equal(targets.counts.sum(1), 8)  # 0.5 s without 0.1 s of grace
        is_near(match, 0.5)
    outside = ~np.any([in_epoch(trials, name) for name in ("test 1", "test 2")], axis=0)
    assert np.all(trials.targets.values[outside] == 0) and np.all(trials.targets.counts[outside] == 0.2)


def test_each_sense_is_there_alone_and_with_the_other_as_often():
    trials = trials_of("senses")
    modality = trials.conditions["modality"]
    is_present = np.array([[1, 0], [0, 1], [1, 1]])[modality]
    np.testing.assert_array_equal(np.any(trials.inputs["stimulus"] != 0, axis=1), is_present)
    np.testing.assert_allclose(np.bincount(modality) / N, 1 / 3, atol=share_error(1 / 3, N))


def test_without_a_stimulus_the_prior_is_left():
    task = tasks.PerceptualDecision(coherence=Choice([-0.2, 0.2, 0.4]), stimulus=Uniform(0.0, 0.1))
    trials = many_trials(task, jax.random.key(0), 200)
    unseen = ~in_epoch(trials, "stimulus").any(axis=1)
    assert 0 < unseen.sum() < 200
    np.testing.assert_allclose(observed(task, trials)[unseen], [[1 / 3, 2 / 3]] * unseen.sum(), atol=1e-6)


class ThreeTones(tasks.AbstractDelayedChoice):
    """Each of three tones has an output of its own; in between a coin decides."""

    noise: jax.Array = eqx.field(converter=jnp.asarray, default=0.1)
    stimulus: float = 0.1
    delay: float = 0.1
    duration: float = 0.5

    def draws(self):
        return {"tone": Choice([0.0, 1.0, 1.5, 2.0])}

    def rule(self, timeline, draws):
        (tone,) = draws
        return tasks.Question({"stimulus": tone[None]}, tone, {"tone": tone}, n_choices=3)


def test_a_choice_between_two_outputs_is_a_coin_flip():
    trials = many_trials(ThreeTones(), jax.random.key(0), 400)
    tone, choice = trials.conditions["tone"], trials.conditions["choice"]
    is_whole = tone != 1.5
    np.testing.assert_array_equal(choice[is_whole], tone[is_whole])
    assert set(choice[~is_whole]) == {1, 2}
    is_near(choice[~is_whole] == 2, 0.5)


def test_what_is_shown_in_an_epoch_that_there_is_not_is_refused():
    class Typo(ThreeTones):
        def rule(self, timeline, draws):
            return tasks.Question({"stimulu": draws[0][None]}, draws[0], {})

    with pytest.raises(ValueError, match="`shown` must be stimuli of the epochs .*stimulu"):
        Typo().validation_trials()


def test_pulses_begin_bins_as_often_as_asked():
    trials = trials_of("pulses")
    in_bins = trials.inputs["stimulus"][:, 10:40].reshape(N, 6, 5, 2)
    assert np.all(in_bins[:, :, 1:] == 0) and set(np.unique(in_bins)) == {0, 1}
    is_right = trials.conditions["right is higher"]
    is_near(is_right, 0.5)
    is_near(in_bins[is_right, :, 0, 1].ravel(), 0.7)
    is_near(in_bins[is_right, :, 0, 0].ravel(), 0.3)
    for side, name in enumerate(("left pulses", "right pulses")):
        np.testing.assert_array_equal(trials.conditions[name], in_bins[..., side].sum((1, 2)))


def test_clicks_are_poisson_processes_of_their_rates():
    trials = trials_of("clicks")
    ratio = trials.conditions["log ratio"]
    shown = in_epoch(trials, "stimulus")
    for value, right_rate in ((0.5, 24.9), (2.5, 37.0)):  # as in PulseInputDDM
        clicks = trials.inputs["stimulus"][np.isclose(ratio, value)][shown[np.isclose(ratio, value)]]
        for rate, counts in ((40 - right_rate, clicks[:, 0]), (right_rate, clicks[:, 1])):
            error = 5 * (0.02 * rate / len(counts)) ** 0.5
            np.testing.assert_allclose([counts.mean(), counts.var()], 0.02 * rate, atol=1.5 * error + 0.001)


@pytest.mark.parametrize("kind", [tasks.PulseDecision, tasks.PoissonClicks])
def test_more_pulses_or_the_higher_rate_are_right(kind):
    for correct_side in ("more pulses", "higher rate"):
        trials = many_trials(kind(correct_side=correct_side), jax.random.key(0), 500)
        left, right = trials.inputs["stimulus"].sum(1).T
        conditions = trials.conditions
        higher = conditions.get("right is higher", conditions.get("log ratio", 0) > 0)
        difference = right - left if correct_side == "more pulses" else np.where(higher, 1, -1)
        choice = conditions["choice"]
        np.testing.assert_array_equal(choice[difference != 0], difference[difference != 0] > 0)
        if correct_side == "more pulses":
            even = choice[difference == 0]
            np.testing.assert_allclose(even.mean(), 0.5, atol=share_error(0.5, even.size))


def test_the_best_observer_of_clear_offers_is_always_right():
    task = tasks.EconomicChoice()
    trials = many_trials(task, jax.random.key(0), 200)
    assert np.all(observed(task, trials).argmax(1) == trials.conditions["choice"])
