"""Matching, detection, several senses, pulses and offers: what is shown, what is right, and who knows best.

Ideal observers see the inputs of the task's own trials, and are right as often as their formula has it.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import many_trials, one_hot, share_error, validation_trials
from scipy.stats import norm
from short_form import every_nth

import popsim
from popsim import tasks
from popsim.distributions import Choice, Uniform


@pytest.fixture
def ideal():
    """What one knows of the tasks without popsim."""
    return pytest.importorskip("references.ideal_choices", reason="examples/ is not beside the tests")


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


def rights(probabilities, right):
    """Whether the most probable choice is right, in each trial."""
    return probabilities.argmax(1) == right


def rights_of_sign(difference, is_asked):
    """How right an observer is in each trial who goes by a sign, half where it guesses."""
    return np.where(difference == 0, 0.5, (difference > 0) == is_asked)


def in_epoch(trials, name):
    steps, bounds = np.arange(trials.timeline.n_steps), trials.timeline.epochs[name]
    return (steps >= bounds[:, :1]) & (steps < bounds[:, 1:])


def mean_stimulus(trials, epoch, where):
    """The mean of the stimulus over an epoch and the trials in which something holds."""
    shown = in_epoch(trials, epoch) & where[:, None]
    return trials.inputs["stimulus"][shown].mean(0)


def two_signals(ideal, seconds, task):
    return ideal.two_signals((2 * seconds) ** 0.5 / float(task.noise))


def more_on_the_right(trials):
    left, right = trials.inputs["stimulus"].sum(1).T
    return right - left


EPOCHS = {"category": ("sample", "test"), "association": ("first", "second"), "offers": ("offer",)}
EPOCHS |= {"dual": ("sample", "test 1", "test 2"), "comparison": ("f1", "f2"), "match": ("sample", "test")}


@pytest.mark.parametrize("name", every_nth(TASKS, 3))
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


def test_go_and_no_go_are_told_apart_as_two_signals_in_noise(ideal):
    task, trials = TASKS["go"], trials_of("go")
    is_go = trials.conditions["go"]
    is_near(is_go, 0.3)
    np.testing.assert_array_equal(trials.conditions["choice"], np.where(is_go, 0, 1))
    np.testing.assert_allclose(mean_stimulus(trials, "stimulus", is_go), [0, 1], atol=0.1)
    is_near(rights(observed(task, trials), ~is_go), ideal.two_signals(1 / 0.5, 0.3))


def test_a_signal_at_an_unknown_time_is_detected_as_often_as_computed(ideal):
    task, trials = TASKS["signal"], trials_of("signal")
    is_there, onset = trials.conditions["signal"], trials.conditions["onset"]
    is_near(is_there, 0.5)
    np.testing.assert_array_equal(is_there, onset >= 0)
    sums = trials.inputs["stimulus"][:, 10:30, 0].reshape(N, 10, 2).mean(2)
    np.testing.assert_allclose(sums[is_there, onset[is_there]].mean(), 0.5, atol=0.02)
    np.testing.assert_allclose(sums[~is_there].mean(), 0, atol=0.01)
    is_near(rights(observed(task, trials), ~is_there), ideal.signal_at_unknown_time(5.0, 10))
    known = tasks.SignalDetection(n_onsets=1, signal_probability=0.3, noise=0.1)
    trials = many_trials(known, jax.random.key(0), N)
    expected = ideal.signal_at_unknown_time(0.5 * 0.1**0.5 / 0.1, 1, 0.3)
    is_near(rights(observed(known, trials), ~trials.conditions["signal"]), expected)


def test_categories_are_halves_of_the_circle_and_match_as_often_as_both_are_known(ideal):
    task, trials = TASKS["category"], trials_of("category")
    sample, test, match = (trials.conditions[name] for name in ("sample", "test", "match"))
    np.testing.assert_array_equal(match, sample // 6 == test // 6)
    np.testing.assert_array_equal(trials.conditions["sample category"], sample // 6)
    np.testing.assert_array_equal(trials.conditions["test category"], test // 6)
    np.testing.assert_array_equal(trials.conditions["choice"], ~match)
    is_near(match, 0.5)
    for epoch, direction in (("sample", sample), ("test", test)):
        np.testing.assert_allclose(np.bincount(direction) / N, 1 / 12, atol=share_error(1 / 12, N))
        for index in (0, 7):
            angle = np.radians(15 + 30 * index)
            shown = mean_stimulus(trials, epoch, direction == index)
            np.testing.assert_allclose(shown, [np.cos(angle), np.sin(angle)], atol=0.08)
    known = norm.cdf(np.sin(np.radians([15, 45, 75])) * 0.65**0.5 / 0.2).mean()
    is_near(rights(observed(task, trials), ~match), ideal.same_kind(known, known))
    assert len(validation_trials(tasks.DelayedMatchToCategory(n_directions=4)).conditions["match"]) == 16


def test_pairs_are_known_as_often_as_both_of_them_are(ideal):
    task, trials = TASKS["association"], trials_of("association")
    first, second = trials.conditions["first"], trials.conditions["second"]
    np.testing.assert_array_equal(trials.conditions["go"], second - first == 2)
    np.testing.assert_array_equal(trials.conditions["choice"], second - first != 2)
    is_near(trials.conditions["go"], 0.5)
    np.testing.assert_allclose(mean_stimulus(trials, "first", first == 1), [0, 1, 0, 0], atol=0.1)
    np.testing.assert_allclose(mean_stimulus(trials, "second", second == 2), [0, 0, 1, 0], atol=0.1)
    known = two_signals(ideal, 1.0, task)
    is_near(rights(observed(task, trials), ~trials.conditions["go"]), ideal.same_kind(known, known))


def test_the_cued_sample_is_tested_and_both_tests_are_answered_as_well(ideal):
    task, trials = TASKS["dual"], trials_of("dual")
    cued = trials.conditions["cued first"]
    known = two_signals(ideal, 0.5, task)
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
        found = observed(task, trials, f"match {turn + 1}")
        is_near(rights(found, match), ideal.same_kind(known, known))
    outside = ~np.any([in_epoch(trials, name) for name in ("test 1", "test 2")], axis=0)
    assert np.all(trials.targets.values[outside] == 0) and np.all(trials.targets.counts[outside] == 0.2)


def test_two_senses_are_combined_by_their_reliability():
    task, trials = TASKS["senses"], trials_of("senses")
    rate, modality = trials.conditions["rate"], trials.conditions["modality"]
    np.testing.assert_array_equal(trials.conditions["choice"], rate > 12.5)
    is_present = np.array([[1, 0], [0, 1], [1, 1]])[modality]
    np.testing.assert_array_equal(np.any(trials.inputs["stimulus"] != 0, axis=1), is_present)
    shown = mean_stimulus(trials, "stimulus", (rate == 16) & (modality == 2))
    np.testing.assert_allclose(shown, [0.28, 0.28], atol=0.12)
    d_primes = is_present * abs(rate[:, None] / 12.5 - 1) / (0.3, 0.1)
    best = norm.cdf(np.sqrt((d_primes**2).sum(1)))
    is_right = rights(observed(task, trials), rate > 12.5)
    for each in range(3):
        here = modality == each
        is_near(here, 1 / 3)
        is_near(is_right[here], best[here])
    with pytest.raises(
        ValueError, match=r"the condition 'rate' of `task.draws\(\)` must be drawn from a Choice"
    ):
        tasks.choice_probabilities(
            tasks.MultisensoryIntegration(rate=Uniform(9.0, 16.0)),
            task.validation_trials(),
        )


@pytest.mark.parametrize(
    ("task", "condition"),
    [
        (TASKS["senses"], "modality"),
        (TASKS["signal"], "onset"),
        (TASKS["dual"], "choice"),
    ],
)
def test_the_observer_is_asked_for_a_choice_or_for_what_is_so_or_not(task, condition):
    with pytest.raises(ValueError, match=f"`condition` must be one of .*, got '{condition}'"):
        tasks.choice_probabilities(task, task.validation_trials(), condition)


HARD = {
    "response": tasks.DelayedResponse(noise=0.5),
    "match": tasks.DelayedMatchToSample(n_directions=4, noise=0.3, match_probability=0.4),
    "comparison": tasks.DelayedComparison(noise=0.05),
    "context": tasks.ContextIntegration(),
}


@pytest.mark.parametrize("name", HARD)
def test_the_observer_is_right_as_often_as_it_expects(name):
    trials = many_trials(HARD[name], jax.random.key(0), N)
    found = observed(HARD[name], trials)
    is_right = rights(found, trials.conditions["choice"])
    assert 0.3 < is_right.mean() < 0.97
    is_near(is_right, found.max(axis=1))


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


@pytest.mark.parametrize("correct_side", ["more pulses", "higher rate"])
def test_who_counts_the_pulses_is_as_good_as_computed(correct_side, ideal):
    is_default = correct_side == "more pulses"
    flashes, clicks = (
        trials_of(name) if is_default else many_trials(kind(correct_side=correct_side), jax.random.key(0), N)
        for name, kind in (("pulses", tasks.PulseDecision), ("clicks", tasks.PoissonClicks))
    )
    best = ideal.counted_pulses(6, (0.3, 0.7), is_more_correct=is_default)
    is_near(rights_of_sign(more_on_the_right(flashes), flashes.conditions["choice"] == 1), best)
    trials = clicks
    seconds = 0.02 * np.diff(trials.timeline.epochs["stimulus"])[:, 0]
    best = ideal.counted_clicks(trials.conditions["log ratio"], seconds, 40.0, is_more_correct=is_default)
    is_near(rights_of_sign(more_on_the_right(trials), trials.conditions["choice"] == 1), best)
    if not is_default:
        np.testing.assert_array_equal(trials.conditions["choice"], trials.conditions["log ratio"] > 0)


def test_the_offer_of_higher_value_is_right_and_the_observer_knows_how_often_it_is():
    task, trials = TASKS["offers"], trials_of("offers")
    a, b, a_first = (trials.conditions[name] for name in ("quantity A", "quantity B", "A first"))
    np.testing.assert_array_equal(trials.conditions["chooses A"], 2.2 * a > b)
    np.testing.assert_array_equal(trials.conditions["choice"] == 0, (2.2 * a > b) == a_first)
    shown = mean_stimulus(trials, "offer", (b == 3) & ~a_first)
    np.testing.assert_allclose(shown, [0, 1, 1, 0, 3 / 6, 1 / 6], atol=0.05)
    found = observed(task, trials)
    is_near(rights(found, trials.conditions["choice"]), found.max(1))
    is_near(trials.conditions["chooses A"], 5 / 9)
    clear = many_trials(tasks.EconomicChoice(), jax.random.key(0), 200)
    assert np.all(rights(observed(tasks.EconomicChoice(), clear), clear.conditions["choice"]))
