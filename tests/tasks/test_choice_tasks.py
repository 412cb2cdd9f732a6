"""Choices after a go cue, and in a context: what is shown, what is right, and who knows best.

`test_small_optima` counts out what most ideal observers should expect; those of other tasks are right as
often as they expect in the task's own trials.
"""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import many_trials, one_hot, share_error
from scipy.stats import norm

import popsim
from popsim import tasks
from popsim.distributions import Choice, Uniform
from popsim.tasks.trial_parts import ring_activity

N, KEY = 4000, jax.random.key(0)
CATCH = tasks.GoResponse(catch_probability=0.1)
FIVE = {"n_directions": 5, "match_probability": 0.3, "noise": 0.3, "response": CATCH}
TASKS = {
    "perception": tasks.PerceptualDecision(response=CATCH),
    "go": tasks.DelayedGoNoGo(noise=0.5, go_probability=0.3, response=CATCH),
    "signal": tasks.SignalDetection(signal_probability=0.3, response=CATCH),
    "category": tasks.DelayedMatchToCategory(match_probability=0.3),
    "association": tasks.DelayedPairedAssociation(go_probability=0.3),
    "dual": tasks.DualDelayedMatchToSample(match_probability=0.3),
    "senses": tasks.MultisensoryIntegration(noise=(0.3, 0.1)),
    "pulses": tasks.PulseDecision(),
    "clicks": tasks.PoissonClicks(),
    "offers": tasks.EconomicChoice(noise=0.3),
    "comparison": tasks.DelayedComparison(noise=0.05, response=CATCH),
    "match": tasks.DelayedMatchToSample(rotation=2, **FIVE),
    "non-match": tasks.DelayedMatchToSample(yes_to="non-match", **FIVE),
    "response": tasks.DelayedResponse(anti_probability=0.25, noise=0.5, response=CATCH),
    "direction": tasks.DirectionCategory(boundary=3, response=CATCH),
    "intervals": tasks.IntervalDiscrimination(response=tasks.GoResponse(catch_probability=0.2)),
    "context": tasks.ContextIntegration(),
}
EPOCHS = {"category": ("sample", "test"), "association": ("first", "second"), "offers": ("offer",)}
EPOCHS |= {"dual": ("sample", "test 1", "test 2"), "comparison": ("f1", "f2"), "match": ("sample", "test")}
EPOCHS |= {"non-match": ("sample", "test"), "intervals": ("first", "second")}
COHERENCES = np.array([-0.512, -0.256, -0.128, -0.064, -0.032, 0.032, 0.064, 0.128, 0.256, 0.512])


@functools.cache
def trials_of(name):
    return many_trials(TASKS[name], KEY, N)


def clean_trials_of(name):
    """The same trials without noise, by the same program."""
    task = TASKS[name]
    return many_trials(dataclasses.replace(task, noise=0 * task.noise), KEY, N)


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


@pytest.mark.parametrize("name", [name for name in TASKS if name != "context"])
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


def on_circle(index):
    """The cosine and the sine of twelve directions beside the boundary."""
    angles = np.radians(15 + 30 * index)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def on_ring(index, n):
    return np.asarray(ring_activity(jnp.asarray(index), n))


def offered(c):
    """Which juice is A and which is B, first and second, and the quantities of the first and the second."""
    a, b, one = c["quantity A"] / 6, c["quantity B"] / 6, np.ones(N)
    a_first, b_first = np.stack([one, 0 * a, 0 * a, one, a, b]), np.stack([0 * a, one, one, 0 * a, b, a])
    return np.where(c["A first"], a_first, b_first).T


RIGHT = {  # the choice; how often conditions hold, or how many values are even; what is shown in epochs
    "perception": (
        lambda c: c["coherence"] > 0,
        {},
        lambda c: {"stimulus": (1 + c["coherence"][:, None] * [-1, 1]) / 2},
    ),
    "go": (lambda c: ~c["go"], {"go": 0.3}, lambda c: {"stimulus": one_hot(1 * c["go"], 2)}),
    "signal": (lambda c: ~c["signal"], {"signal": 0.3}, lambda c: {}),
    "category": (
        lambda c: c["sample"] // 6 != c["test"] // 6,
        {"match": 0.3, "sample": 12, "test": 12},
        lambda c: {"sample": on_circle(c["sample"]), "test": on_circle(c["test"])},
    ),
    "association": (
        lambda c: c["second"] - c["first"] != 2,
        {"go": 0.3, "first": 2},
        lambda c: {"first": one_hot(c["first"], 4), "second": one_hot(c["second"], 4)},
    ),
    "senses": (
        lambda c: c["rate"] > 12.5,
        {"modality": 3},
        lambda c: {"stimulus": is_present(c) * (c["rate"] / 12.5 - 1)[:, None]},
    ),
    "offers": (
        lambda c: (2.2 * c["quantity A"] > c["quantity B"]) != c["A first"],
        {"chooses A": 5 / 9, "A first": 0.5},
        lambda c: {"offer": offered(c)},
    ),
    "comparison": (
        lambda c: c["f1"] < c["f2"],
        {},
        lambda c: {"f1": c["f1"][:, None] / 34, "f2": c["f2"][:, None] / 34},
    ),
    "match": (
        lambda c: ~c["match"],
        {"match": 0.3, "sample": 5},
        lambda c: {"sample": on_ring(c["sample"], 5), "test": on_ring(c["test"], 5)},
    ),
    "non-match": (lambda c: c["match"], {"match": 0.3, "sample": 5}, lambda c: {}),
    "response": (
        lambda c: (c["stimulus"] + 4 * c["rule"]) % 8,
        {"rule": 0.25, "stimulus": 8},
        lambda c: {"stimulus": on_ring(c["stimulus"], 8)},
    ),
    "direction": (
        lambda c: (c["direction"] < 3) | (c["direction"] > 8),
        {"direction": 12},
        lambda c: {"stimulus": on_ring(c["direction"], 12)},
    ),
    "intervals": (
        lambda c: np.where(c["first"] > c["second"], c["order"], 1 - c["order"]),
        {"choice": 0.5, "order": 0.5},
        lambda c: {"first": one_hot(c["order"], 2), "second": one_hot(1 - c["order"], 2)},
    ),
}


def is_present(c):
    return np.array([[1, 0], [0, 1], [1, 1]])[c["modality"]]


@pytest.mark.parametrize("name", RIGHT)
def test_choices_and_stimuli_follow_from_conditions_that_come_as_often_as_asked(name):
    choice, shares, shown = RIGHT[name]
    trials = clean_trials_of(name)
    conditions = trials.conditions
    np.testing.assert_array_equal(conditions["choice"], choice(conditions))
    for condition, share in shares.items():
        for value in range(share) if isinstance(share, int) else [1]:
            is_near(conditions[condition] == value, 1 / share if isinstance(share, int) else share)
    for epoch, stimulus in shown(conditions).items():
        during, found = in_epoch(trials, epoch), trials.inputs["stimulus"]
        expected = np.broadcast_to(stimulus[:, None], found.shape)
        np.testing.assert_allclose(found[during], expected[during], atol=1e-5)


@pytest.mark.parametrize("name", ["response", "match", "comparison", "context"])
def test_the_observer_is_right_as_often_as_it_expects(name):
    found = observed(TASKS[name], trials_of(name))
    is_right = found.argmax(1) == trials_of(name).conditions["choice"]
    assert 0.3 < is_right.mean() < 0.99
    is_near(is_right, found.max(axis=1))


@pytest.mark.parametrize("n_streams", [1, 2])
def test_the_evidence_says_what_is_right_as_often_as_the_formula_has_it(n_streams):
    two = trials_of("perception")
    trials = two if n_streams == 2 else many_trials(tasks.PerceptualDecision(n_streams=1), KEY, N)
    total = trials.inputs["stimulus"].sum(axis=1)
    evidence = total[:, 0] if n_streams == 1 else total[:, 1] - total[:, 0]
    is_right = (evidence > 0) == trials.conditions["choice"]
    d = abs(COHERENCES) * (0.5 / n_streams) ** 0.5 / 0.05
    for value, p in zip(COHERENCES, norm.cdf(d), strict=True):
        here = np.isclose(trials.conditions["coherence"], value)
        is_near(here, 0.1)
        np.testing.assert_allclose(is_right[here].mean(), p, atol=share_error(p, here.sum()) + 0.005)


def test_a_coherence_of_zero_speaks_for_both_directions_and_a_coin_decides():
    coherences = jnp.arange(-6.0, 4.0) / 20
    task = tasks.PerceptualDecision(n_streams=1, coherence=Choice(coherences), noise=0.1)
    trials = many_trials(task, KEY, N)
    evidence = 0.05 * jnp.asarray(trials.inputs["stimulus"]).sum((1, 2))
    expected = tasks.probability_of_right(evidence, jnp.full(N, 0.5), coherences, jnp.asarray(0.1))
    np.testing.assert_allclose(observed(task, trials)[:, 1], expected, atol=1e-3)
    is_near(trials.conditions["choice"][trials.conditions["coherence"] == 0], 0.5)


def test_without_a_stimulus_the_prior_is_left():
    task = tasks.PerceptualDecision(coherence=Choice([-0.2, 0.2, 0.4]), stimulus=Uniform(0.0, 0.1))
    trials = many_trials(task, KEY, 200)
    unseen = ~in_epoch(trials, "stimulus").any(axis=1)
    assert 0 < unseen.sum() < 200
    np.testing.assert_allclose(observed(task, trials)[unseen], [[1 / 3, 2 / 3]] * unseen.sum(), atol=1e-6)


def test_streams_and_context_are_drawn_independently_and_the_stream_of_the_context_is_right():
    trials = trials_of("context")
    drawn = [trials.conditions[name] for name in ("context", "motion coherence", "colour coherence")]
    choice = np.where(drawn[0] == 0, drawn[1], drawn[2]) > 0
    np.testing.assert_array_equal(trials.conditions["choice"], choice)
    np.testing.assert_array_equal(popsim.correct_choice(trials.targets), choice)
    np.testing.assert_array_equal(trials.targets.counts, np.tile([0.0] * 27 + [1.0], (N, 1)))
    np.testing.assert_allclose(np.corrcoef(drawn), np.eye(3), atol=5 / N**0.5)
    is_near(drawn[0], 0.5)
    evidence, told = trials.inputs["evidence"], np.eye(2)[drawn[0]]
    assert evidence.shape == (N, 28, 2) and np.all(evidence[:, 25:] == 0)
    np.testing.assert_array_equal(trials.inputs["context"], np.repeat(told[:, None], 28, axis=1))
    noise = evidence[:, :25] - np.stack(drawn[1:], axis=-1)[:, None]
    np.testing.assert_allclose(noise.std((0, 1)), 1.0, rtol=0.02)
    np.testing.assert_allclose(np.corrcoef(noise.reshape(-1, 2).T)[0, 1], 0, atol=5 / (25 * N) ** 0.5)


def test_a_signal_comes_at_its_onset():
    trials = clean_trials_of("signal")
    is_there, onset = trials.conditions["signal"], trials.conditions["onset"]
    np.testing.assert_array_equal(is_there, onset >= 0)
    expected = np.repeat(0.5 * (onset[:, None] == np.arange(10)), 2, axis=1)
    np.testing.assert_allclose(trials.inputs["stimulus"][:, 10:30, 0], expected, rtol=1e-6)


def test_labels_tell_categories_distances_rules_and_durations():
    categories = trials_of("category").conditions
    for item in ("sample", "test"):
        np.testing.assert_array_equal(categories[f"{item} category"], categories[item] // 6)
    directions = trials_of("direction").conditions
    distances = np.array([2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1, 2])
    np.testing.assert_array_equal(directions["distance"], distances[directions["direction"]])
    response, intervals = trials_of("response"), trials_of("intervals")
    told = np.repeat(one_hot(response.conditions["rule"], 2)[:, None], response.timeline.n_steps, axis=1)
    np.testing.assert_array_equal(response.inputs["rule"], told)
    first, second, order, choice = (
        intervals.conditions[name] for name in ("first", "second", "order", "choice")
    )
    for epoch, seconds in (("first", first), ("second", second)):
        np.testing.assert_allclose(0.05 * in_epoch(intervals, epoch).sum(1), seconds, rtol=1e-5)
    # Who knows only the first guesses that the other one is on the side where most of them are.
    is_near(np.where(first > 0.45, order, 1 - order) == choice, 5 / 6)


@pytest.mark.parametrize(("name", "rotation"), [("match", 2), ("non-match", 0)])
def test_a_test_that_does_not_match_has_any_other_direction(name, rotation):
    conditions = trials_of(name).conditions
    turned = (conditions["test"] - conditions["sample"] - rotation) % 5
    np.testing.assert_array_equal(turned == 0, conditions["match"])
    for other in range(1, 5):
        is_near(turned[~conditions["match"]] == other, 1 / 4)


def test_pairs_of_frequencies_come_in_both_orders():
    conditions = trials_of("comparison").conditions
    pairs, counts = np.unique(
        np.stack([conditions["f1"], conditions["f2"]], axis=1), axis=0, return_counts=True
    )
    assert len(pairs) == 10 and np.all(abs(pairs[:, 0] - pairs[:, 1]) == 8)
    np.testing.assert_allclose(counts / N, 0.1, atol=share_error(0.1, N))


def test_the_cued_sample_is_tested():
    trials = clean_trials_of("dual")
    cued = trials.conditions["cued first"]
    for turn, item in enumerate((cued, 1 - cued)):
        test, match = f"test {turn + 1}", trials.conditions[f"match {turn + 1}"]
        cue = trials.inputs["cue"][in_epoch(trials, f"cue {turn + 1}")].reshape(N, 10, 2)
        np.testing.assert_array_equal(cue, np.repeat(one_hot(item, 2)[:, None], 10, axis=1))
        sample = np.where(item == 0, trials.conditions["sample 1"], trials.conditions["sample 2"])
        shown = one_hot(2 * item + np.where(match, sample, 1 - sample), 4)
        during = trials.inputs["stimulus"][in_epoch(trials, test)].reshape(N, 10, 4)
        np.testing.assert_array_equal(during, np.repeat(shown[:, None], 10, axis=1))
        targets = tasks.targets_in_epoch(jax.tree.map(jnp.asarray, trials), test)
        np.testing.assert_array_equal(popsim.correct_choice(targets), ~match)
        np.testing.assert_array_equal(targets.counts.sum(1), 8)  # 0.5 s without 0.1 s of grace
        is_near(match, 0.3)
    outside = ~np.any([in_epoch(trials, name) for name in ("test 1", "test 2")], axis=0)
    assert np.all(trials.targets.values[outside] == 0) and np.all(trials.targets.counts[outside] == 0.2)


def test_there_is_noise_in_the_senses_that_are_there():
    trials = trials_of("senses")
    is_noisy = np.any(trials.inputs["stimulus"] != 0, axis=1)
    np.testing.assert_array_equal(is_noisy, is_present(trials.conditions))


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
    trials = many_trials(ThreeTones(), KEY, 400)
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


@pytest.mark.parametrize("name", ["pulses", "clicks"])
def test_more_pulses_or_the_higher_rate_are_right(name):
    by_rate = many_trials(dataclasses.replace(TASKS[name], correct_side="higher rate"), KEY, 500)
    for trials in (trials_of(name), by_rate):
        left, right = trials.inputs["stimulus"].sum(1).T
        conditions, choice = trials.conditions, trials.conditions["choice"]
        higher = conditions.get("right is higher", conditions.get("log ratio", 0) > 0)
        difference = np.where(higher, 1, -1) if trials is by_rate else right - left
        np.testing.assert_array_equal(choice[difference != 0], difference[difference != 0] > 0)
        if trials is not by_rate:
            is_near(choice[difference == 0], 0.5)
